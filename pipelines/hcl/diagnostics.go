package hcl

import (
	"bytes"
	"fmt"
	"io"

	"github.com/hashicorp/hcl/v2"
)

// diagnosticWidth wraps explanations.
const diagnosticWidth = 100

// What of many or long findings is shown to people.
const (
	diagnosticsShown = 100
	longestSnippet   = 500     // bytes of a line
	snippetsSearched = 1 << 20 // bytes, beyond the first: a snippet is found by reading its file from the start
)

// WriteDiagnostics writes findings with file, line, column and a snippet. c
// may be nil; there are then no snippets.
func WriteDiagnostics(w io.Writer, c *Config, diags hcl.Diagnostics, color bool) error {
	files := map[string]*hcl.File{}
	if c != nil {
		files = c.Files
	}
	var text bytes.Buffer
	full := hcl.NewDiagnosticTextWriter(&text, files, diagnosticWidth, color)
	bare := hcl.NewDiagnosticTextWriter(&text, nil, diagnosticWidth, color)
	searched := 0
	for i, d := range diags[:min(len(diags), diagnosticsShown)] {
		to := full
		if d.Subject != nil && files[d.Subject.Filename] != nil {
			file := files[d.Subject.Filename]
			searched += len(file.Bytes)
			if i > 0 && searched > snippetsSearched || longLine(file, d.Subject.Start.Byte) {
				to = bare
			}
		}
		text.Reset()
		if err := to.WriteDiagnostic(d); err != nil {
			return err
		}
		if _, err := w.Write(withColumn(text.Bytes(), d.Subject)); err != nil {
			return err
		}
	}
	if more := len(diags) - diagnosticsShown; more > 0 {
		_, err := fmt.Fprintf(w, "... and %d more findings; harpagon validate --json lists all.\n\n", more)
		return err
	}
	return nil
}

// withColumn says the column, too, where a finding says its line.
func withColumn(text []byte, at *hcl.Range) []byte {
	if at == nil {
		return text
	}
	place := fmt.Sprintf("  on %s line %d", at.Filename, at.Start.Line)
	return bytes.Replace(text, []byte(place), fmt.Appendf(nil, "%s, column %d", place, at.Start.Column), 1)
}

// longLine reports whether the line at an offset is too long to be shown.
func longLine(f *hcl.File, at int) bool {
	if at > len(f.Bytes) {
		return false
	}
	begin := bytes.LastIndexByte(f.Bytes[:at], '\n') + 1
	end := bytes.IndexByte(f.Bytes[at:], '\n')
	if end < 0 {
		end = len(f.Bytes) - at
	}
	return at+end-begin > longestSnippet
}

// Finding is a diagnostic as data, for --json.
type Finding struct {
	Severity string `json:"severity"` // "error" or "warning"
	Summary  string `json:"summary"`
	Detail   string `json:"detail"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"`
}

// Findings turns diagnostics into data.
func Findings(diags hcl.Diagnostics) []Finding {
	all := make([]Finding, 0, len(diags))
	for _, d := range diags {
		f := Finding{Severity: "error", Summary: d.Summary, Detail: d.Detail}
		if d.Severity == hcl.DiagWarning {
			f.Severity = "warning"
		}
		if d.Subject != nil {
			f.File, f.Line, f.Column = d.Subject.Filename, d.Subject.Start.Line, d.Subject.Start.Column
		}
		all = append(all, f)
	}
	return all
}

// String is the finding in one line.
func (f Finding) String() string {
	if f.File == "" {
		return fmt.Sprintf("%s: %s: %s", f.Severity, f.Summary, f.Detail)
	}
	return fmt.Sprintf("%s:%d:%d: %s: %s: %s", f.File, f.Line, f.Column, f.Severity, f.Summary, f.Detail)
}
