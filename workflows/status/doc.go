// Package status says how a service is, for people and programs: what serves, what is
// asked for or tried, what was decided and why. It is data that the workflow of a service
// answers queries with; Describe writes it for `harpagon status`, and the UI shows the
// same.
package status
