package system

import (
	"bytes"
	"fmt"

	"github.com/hashicorp/hcl/v2"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/check"
	"github.com/harpagon/harpagon/pipelines/language"
)

// DeclarationError says what is wrong with a declaration, with every finding.
type DeclarationError struct {
	Config   *language.Config
	Findings hcl.Diagnostics
}

// Error lists the findings with their places.
func (e *DeclarationError) Error() string {
	var b bytes.Buffer
	fmt.Fprintln(&b, "harpagon: the declaration cannot be used:")
	_ = language.WriteDiagnostics(&b, e.Config, e.Findings, false) // a buffer takes everything
	return b.String()
}

// Load reads and checks a declaration; the error is a *DeclarationError.
func Load(o language.LoadOptions, signatures check.SignatureFunc, files ...string) (pipelines.Document, error) {
	return load(o, signatures, files, nil, pipelines.Planning{})
}

// load also takes what a program declares, and how to plan in place of what plan
// blocks say.
func load(o language.LoadOptions, signatures check.SignatureFunc, files []string, own *pipelines.Document, by pipelines.Planning) (pipelines.Document, error) {
	config, findings := language.NewConfig(), hcl.Diagnostics(nil)
	if len(files) > 0 || own == nil {
		config, findings = language.Load(o, files...)
	}
	if own != nil {
		findings = append(findings, config.Add(*own)...)
	}
	if !findings.HasErrors() {
		findings = append(findings, config.Validate(signatures)...)
	}
	if findings.HasErrors() {
		return config.Document, &DeclarationError{Config: config, Findings: findings}
	}
	if found := config.Document.Override(by); len(found) > 0 {
		return config.Document, fmt.Errorf("harpagon: how to plan: %s", found[0].Detail)
	}
	return config.Document, nil
}
