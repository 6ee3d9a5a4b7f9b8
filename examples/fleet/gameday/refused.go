package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// refusedRate cannot be planned for with what there is, in requests per second.
const refusedRate = 1_000_000

// refuse applies what cannot be carried out, so that the next fault meets a fleet that was
// asked for something else than it serves: that must leave no trace.
func (f *fleet) refuse(ctx context.Context) error {
	out, err := f.command(ctx, "apply", f.options.folder, "--var", fmt.Sprintf("rate=%d", refusedRate)).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "goes on serving") {
		return fmt.Errorf("apply of %d requests per second was not refused: %v: %s", refusedRate, err, out)
	}
	return nil
}

// saysWhy looks at a fleet whose Temporal cannot write: somebody who asks is answered, or is
// told what may be the reason.
func (f *fleet) saysWhy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	out, err := f.command(ctx, "status").CombinedOutput()
	if err == nil || strings.Contains(string(out), "cannot write its state") || strings.Contains(string(out), "no Temporal server answers") {
		return nil
	}
	return fmt.Errorf("status on a full disk: %w: %s", err, out)
}
