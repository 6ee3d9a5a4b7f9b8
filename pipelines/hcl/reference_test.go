package hcl_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines/hcl"
)

var update = flag.Bool("update", false, "write the tables of attributes in docs anew")

var attributesOf = regexp.MustCompile(`(?m)^<!-- attributes of (.+) -->\n((?:\|.*\n)*)`)

// TestDocsListTheAttributes: docs have a table of every kind of block, as the rows that
// read and print it say.
func TestDocsListTheAttributes(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*/*.md")
	require.NoError(t, err)
	tables := hcl.Reference()
	missing := hcl.Reference()
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		fresh := attributesOf.ReplaceAllStringFunc(string(text), func(section string) string {
			of := attributesOf.FindStringSubmatch(section)
			kind := of[1]
			assert.Contains(t, tables, kind, "%s has a table of a block that there is not", page)
			delete(missing, kind)
			if !*update {
				assert.Equal(t, tables[kind], of[2], "%s: run go test ./pipelines/hcl -run TestDocsListTheAttributes -update", page)
			}
			return "<!-- attributes of " + kind + " -->\n" + tables[kind]
		})
		if *update && fresh != string(text) {
			require.NoError(t, os.WriteFile(page, []byte(fresh), 0o644))
		}
	}
	assert.Empty(t, missing, "put <!-- attributes of KIND --> on a page of docs")
}
