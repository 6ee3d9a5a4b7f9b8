// Command manpages writes the manual pages of command harpagon into a folder, for
// packages and releases:
//
//	go run -tags noserver ./cmd/manpages DIR
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra/doc"

	"github.com/harpagon/harpagon/cmd/harpagon/cli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: manpages DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "manpages:", err)
		os.Exit(1)
	}
}

// write makes one page a command.
func write(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	root := cli.New(cli.Deps{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr})
	root.DisableAutoGenTag = true // pages of one version are the same bytes
	return doc.GenManTree(root, &doc.GenManHeader{Title: "HARPAGON", Section: "1", Source: "Harpagon", Manual: "Harpagon"}, folder)
}
