package command

import (
	"fmt"
	"io"
	"os"

	"github.com/harpagon/harpagon/cmd/harpagon/chart"
)

// CheckPicture says early that a picture cannot be written to the file.
func CheckPicture(path string) error {
	if path == "" {
		return nil
	}
	if err := chart.Check(path); err != nil {
		return fmt.Errorf("--plot %w", err)
	}
	return nil
}

// Drawing is a picture of package chart; the name of the file says in which format
// it is written.
type Drawing interface {
	Write(w io.Writer, name string) error
}

// WritePicture draws to a file that is there only when all went well.
func WritePicture(d *Deps, path string, p Drawing) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("the picture was not drawn: %w", err)
	}
	err = p.Write(file, path)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = os.Remove(path) // what is left of it is of no use
		return fmt.Errorf("the picture was not drawn: %w", err)
	}
	fmt.Fprintf(d.Stderr, "wrote %s\n", path)
	return nil
}
