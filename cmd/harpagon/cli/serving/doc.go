// Package serving has the commands about what runs: up, apply, status, explain,
// infer, load, demo and down, a stand-in for a provider of functions, and what measures
// this machine (profile, engines).
package serving
