package content

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire/secure"
)

// Store keeps files by their digests. Whoever reads from one checks what it gets.
type Store interface {
	// Open gives the content of a digest; the error is an errLacks where the store
	// does not have it, and anything else where it did not answer.
	Open(ctx context.Context, digest string) (io.ReadCloser, error)
	// Has says whether the store has the content.
	Has(ctx context.Context, digest string) (bool, error)
	// Put keeps a file of that digest and size, whose content from gives.
	Put(ctx context.Context, f pipelines.File, from io.Reader) error
	// String is where the store is, for people.
	String() string
}

// OpenStore is the store at an address: a folder, or http(s)://HOST:PORT, where the
// credentials are for the latter.
func OpenStore(address string, c secure.Credentials) (Store, error) {
	if strings.Contains(address, "://") {
		return newRemote(address, c)
	}
	if address == "" {
		return nil, errors.New("content: a store is a folder or an address such as http://control:8092")
	}
	return Folder(address), nil
}

// Folder is a store in a folder, which several hosts may see.
type Folder string

// String is the folder.
func (f Folder) String() string { return string(f) }

// blob is the path of a content. The digest must have been checked.
func (f Folder) blob(digest string) string {
	return filepath.Join(string(f), "sha256", strings.TrimPrefix(digest, "sha256:"))
}

// Open opens the file of a content.
func (f Folder) Open(_ context.Context, digest string) (io.ReadCloser, error) {
	if err := pipelines.CheckDigest(digest); err != nil {
		return nil, err
	}
	file, err := os.Open(f.blob(digest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("it %w in the store %s", errLacks, f)
	}
	return file, err
}

// Has looks whether there is a file.
func (f Folder) Has(_ context.Context, digest string) (bool, error) {
	if err := pipelines.CheckDigest(digest); err != nil {
		return false, err
	}
	_, err := os.Stat(f.blob(digest))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Put writes a file, whole or not at all. What from gives must have the digest: it
// is a *MismatchError otherwise, found as soon as it is longer than it may be.
func (f Folder) Put(ctx context.Context, file pipelines.File, from io.Reader) error {
	if err := pipelines.CheckDigest(file.Digest); err != nil {
		return err
	}
	to := f.blob(file.Digest)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return f.full(file, err)
	}
	part, err := os.CreateTemp(filepath.Dir(to), ".part-*")
	if err != nil {
		return f.full(file, err)
	}
	defer os.Remove(part.Name()) // fails once it has been renamed
	got, _, err := Sum(io.TeeReader(io.LimitReader(bounded{ctx, from}, file.Size+1), part))
	if err == nil {
		err = part.Chmod(0o555) // nobody writes to it any more, and programs run
	}
	if closed := part.Close(); err == nil {
		err = closed
	}
	switch {
	case err != nil:
		return f.full(file, err)
	case got != file.Digest:
		return &MismatchError{Where: file.Path, Want: file.Digest, Got: got}
	}
	return f.full(file, os.Rename(part.Name(), to))
}

// full types an error of the disk.
func (f Folder) full(file pipelines.File, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return &FullError{Folder: string(f), Need: file.Size, Err: err}
	}
	return err
}

// bounded ends reading with a context.
type bounded struct {
	ctx  context.Context
	from io.Reader
}

func (b bounded) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.from.Read(p)
}
