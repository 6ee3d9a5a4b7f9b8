package testkit

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const page = "# A page\n\nWrite `a.txt`:\n\n```yaml\none: 1\n```\n\n" +
	"```sh\nmkdir -p deep && cd deep\ncat ../a.txt\n```\n\n```text\none: 1\n```\n\n" +
	"Like this one, which is not run:\n\n```hcl\nx = 1\n```\n\n```text\nnor this\n```\n\n" +
	"```sh\necho took 3.5 ms of 10s\necho more\necho FP32 by me@here\n```\n\n```text varies\ntook 700 ms\n  of 9 s\n...\nFP32 by you@there\n```\n"

func TestSteps(t *testing.T) {
	all := Steps(page)
	require.Len(t, all, 3)
	assert.Equal(t, Step{Line: 5, File: "a.txt", Text: "one: 1\n"}, all[0])
	assert.Equal(t, Step{Line: 9, Text: "mkdir -p deep && cd deep\ncat ../a.txt\n", Shown: "one: 1\n"}, all[1])
	assert.True(t, all[2].Varies)
}

func TestReader(t *testing.T) {
	r := &Reader{TB: t, Folder: t.TempDir(), Bin: t.TempDir()}
	require.NoError(t, os.WriteFile(filepath.Join(r.Bin, "harpagon"), []byte("#!/bin/sh\necho ready in 3 s\nuntil test -e down; do sleep 0.1; done\n"), 0o700))
	r.Read(append(Steps(page), Steps("```sh\nharpagon up .\n```\n\n```text varies\nready in 7 s\n```\n\n```sh\ntouch down\n```\n")...))
	assert.Equal(t, "deep", filepath.Base(r.Folder))
}

func TestPrints(t *testing.T) {
	for shown, ok := range map[string]bool{"a 1": true, "a 2": false, "b": true, "1 b c": true, "a\n...\nc": true, "a\nc": false, "c\n...\na": false} {
		err := Step{Shown: shown}.Prints("a 1\n  b c")
		assert.Equal(t, ok, err == nil, "%q: %v", shown, err)
	}
	for shown, ok := range map[string]bool{"-2.5e+06 of 7 µs": true, "9 of 7": true, "of 7 FP32": true, "of 7 FP64": false} {
		err := Step{Shown: shown, Varies: true}.Prints("1.2e-03 of 11 ms FP32")
		assert.Equal(t, ok, err == nil, "%q: %v", shown, err)
	}
}
