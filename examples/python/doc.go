// Package python holds a client in Python, client.py, and its test.
package python
