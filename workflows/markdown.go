package workflows

import "strings"

// MarkdownTable is a table in Markdown; its zero value is empty.
type MarkdownTable struct{ strings.Builder }

// Row adds a row; the second one separates the head, as "---" in every cell.
func (t *MarkdownTable) Row(cells ...string) {
	t.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}
