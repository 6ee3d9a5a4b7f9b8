package cli

import "strings"

// lineWidth is what lines of text are kept within where nobody says otherwise.
const lineWidth = 100

// wrapped breaks a text between words so that no line is longer than width;
// lines after the first begin with indent. A word that is longer stands alone.
func wrapped(text string, width int, indent string) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		n := len([]rune(word))
		switch {
		case i == 0:
		case column+1+n > width:
			b.WriteString("\n" + indent)
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}
