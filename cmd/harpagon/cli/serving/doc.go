// Package serving has the commands about what runs: up, apply, status, explain,
// infer, load, demo and down, the roles on hosts of their own, and what measures
// this machine (profile, engines).
package serving
