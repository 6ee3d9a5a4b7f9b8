package cli

import (
	"bytes"
	"fmt"
	"io"

	"github.com/harpagon/harpagon/cmd/harpagon/chart"
	"github.com/harpagon/harpagon/internal/osutil"
)

// checkPicture says early that a picture cannot be written to the file.
func checkPicture(path string) error {
	if path == "" {
		return nil
	}
	if err := chart.Check(path); err != nil {
		return fmt.Errorf("--plot %w", err)
	}
	return nil
}

// drawing is a picture of package chart; the name of the file says in which format
// it is written.
type drawing interface {
	Write(w io.Writer, name string) error
}

// writePicture draws to a file; one that was there stays where that fails.
func writePicture(d *Deps, path string, p drawing) error {
	var drawn bytes.Buffer
	err := p.Write(&drawn, path)
	if err == nil {
		err = osutil.ReplaceFile(path, drawn.Bytes(), 0o666)
	}
	if err != nil {
		return fmt.Errorf("the picture was not drawn: %w", err)
	}
	fmt.Fprintf(d.Stderr, "wrote %s\n", path)
	return nil
}
