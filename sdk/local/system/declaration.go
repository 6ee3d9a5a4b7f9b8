package system

import (
	"bytes"
	"fmt"

	hclv2 "github.com/hashicorp/hcl/v2"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/hcl"
)

// DeclarationError says what is wrong with a declaration, with every finding.
type DeclarationError struct {
	Config   *hcl.Config
	Findings hclv2.Diagnostics
}

// Error lists the findings with their places.
func (e *DeclarationError) Error() string {
	var b bytes.Buffer
	fmt.Fprintln(&b, "harpagon: the declaration cannot be used:")
	_ = hcl.WriteDiagnostics(&b, e.Config, e.Findings, false) // a buffer takes everything
	return b.String()
}

// Load reads and checks a declaration; the error is a *DeclarationError.
func Load(o hcl.LoadOptions, signatures pipelines.SignatureFunc, files ...string) (pipelines.Document, error) {
	return load(o, signatures, files, nil, pipelines.Planning{})
}

// load also takes what a program declares, and how to plan in place of what plan
// blocks say.
func load(o hcl.LoadOptions, signatures pipelines.SignatureFunc, files []string, own *pipelines.Document, by pipelines.Planning) (pipelines.Document, error) {
	config, findings := hcl.NewConfig(), hclv2.Diagnostics(nil)
	if len(files) > 0 || own == nil {
		config, findings = hcl.Load(o, files...)
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
