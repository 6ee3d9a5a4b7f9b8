package pipelines

import (
	"fmt"
	"io"

	"github.com/hashicorp/hcl/v2"
)

// diagnosticWidth wraps explanations.
const diagnosticWidth = 100

// WriteDiagnostics writes findings with file, line, column and a snippet. c
// may be nil; there are then no snippets.
func WriteDiagnostics(w io.Writer, c *Config, diags hcl.Diagnostics, color bool) error {
	files := map[string]*hcl.File{}
	if c != nil {
		files = c.Files
	}
	return hcl.NewDiagnosticTextWriter(w, files, diagnosticWidth, color).WriteDiagnostics(diags)
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
