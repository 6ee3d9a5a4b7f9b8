// Package deploy holds what runs Harpagon on hosts and in containers, and tests it.
package deploy
