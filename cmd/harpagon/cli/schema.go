package cli

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"
)

// schemas holds what --json prints, a JSON Schema (draft 2020-12) a command.
//
//go:embed schemas/*.json
var schemas embed.FS

func newSchemaCommand(d *Deps) *cobra.Command {
	return &cobra.Command{
		Use:   "schema [COMMAND]",
		Short: "Print the JSON Schema of what a command prints with --json",
		Long: `Prints the JSON Schema (draft 2020-12) of what COMMAND --json prints, or lists the
commands that have one. Fields that a schema requires stay; more may be added, so
programs should ignore what they do not know.`,
		Example: `  harpagon schema
  harpagon schema plan > plan.schema.json`,
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: schemaNames(),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				_, err := fmt.Fprintln(d.Stdout, strings.Join(schemaNames(), "\n"))
				return err
			}
			text, err := schemaOf(args[0])
			if err == nil {
				_, err = d.Stdout.Write(text)
			}
			return err
		},
	}
}

func schemaOf(command string) ([]byte, error) {
	text, err := schemas.ReadFile("schemas/" + command + ".json")
	if err != nil {
		return nil, fmt.Errorf("there is no schema %q; there are %s", command, strings.Join(schemaNames(), ", "))
	}
	return text, nil
}

// schemaNames are the commands that have a schema, sorted.
func schemaNames() []string {
	files, err := fs.Glob(schemas, "schemas/*.json")
	if err != nil {
		return nil // the pattern is a good one
	}
	names := make([]string, len(files))
	for i, file := range files {
		names[i] = strings.TrimSuffix(strings.TrimPrefix(file, "schemas/"), ".json")
	}
	return names
}
