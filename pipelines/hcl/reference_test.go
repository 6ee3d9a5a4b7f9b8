package hcl_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
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

var defined = regexp.MustCompile(`(?m)^\| ([a-z][a-zA-Z, -]*?) \|`)

// TestGlossaryHasTheLanguage: every block is a word of the glossary, no word is defined twice but
// those that the last section lists.
func TestGlossaryHasTheLanguage(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/glossary.md")
	require.NoError(t, err)
	once, twice, found := strings.Cut(string(text), "## Words with two meanings")
	require.True(t, found)
	words := map[string]bool{}
	for _, m := range defined.FindAllStringSubmatch(once, -1) {
		for word := range strings.SplitSeq(m[1], ", ") {
			if word != "word" {
				assert.False(t, words[word], "%s is defined twice", word)
				words[word] = true
			}
		}
	}
	for _, m := range defined.FindAllStringSubmatch(twice, -1) {
		assert.True(t, m[1] == "word" || words[m[1]] || m[1] == "refused" || m[1] == "shared", "%s has two meanings, and the first is missing", m[1])
	}
	for kind := range hcl.Reference() {
		assert.True(t, words[strings.Fields(kind)[0]], "block %s is not in the glossary", kind)
	}
}
