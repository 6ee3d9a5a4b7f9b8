//go:build !cgo

package onnxruntime

import (
	"errors"

	"github.com/harpagon/harpagon/executors/onnx"
)

// errNoCgo means that this program cannot run ONNX Runtime at all.
var errNoCgo = errors.New("onnxruntime: this program was built without cgo, which ONNX Runtime needs; build it with CGO_ENABLED=1 and a C compiler")

func supported() error { return errNoCgo }

func open(Library, Provider, string, []byte, []string, onnx.Layout, int) (network, error) {
	return nil, errNoCgo
}
