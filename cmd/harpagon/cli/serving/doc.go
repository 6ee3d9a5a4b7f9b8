// Package serving has the commands about what runs: up, status, explain,
// infer, load and demo, a stand-in for a provider of functions, and what measures
// this machine (profile, engines).
package serving
