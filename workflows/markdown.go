package workflows

import "strings"

// markdownTable is a table in Markdown; its zero value is empty.
type markdownTable struct{ strings.Builder }

// Row adds a row; the second one separates the head, as "---" in every cell.
func (t *markdownTable) Row(cells ...string) {
	t.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}
