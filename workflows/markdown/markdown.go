// Package markdown writes tables for the current details of workflows, which
// Temporal's UI shows.
package markdown

import "strings"

// Table is a table in Markdown; its zero value is empty.
type Table struct{ strings.Builder }

// Row adds a row; the second one separates the head, as "---" in every cell.
func (t *Table) Row(cells ...string) {
	t.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}
