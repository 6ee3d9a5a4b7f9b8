package content

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/executors/onnx"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
)

// Pinning states what becomes of the files of a declaration that is applied.
type Pinning struct {
	Store    Store // takes what it lacks; nil leaves files where they are, for workers that see the same folder
	Fetch    Fetcher
	Progress func(string) // receives a line for every file that is sent; may be nil
}

// Pin writes into every module of the document which files it needs, with their
// digests as they are now, and sends to the store what it lacks. A missing model that has a
// profile stays unpinned: hosts may have it.
func (p Pinning) Pin(ctx context.Context, doc *pipelines.Document) error {
	for i := range doc.Pipelines {
		for k := range doc.Pipelines[i].Modules {
			m := &doc.Pipelines[i].Modules[k]
			if err := p.pin(ctx, m, len(m.Profile.Points) > 0); err != nil {
				return fmt.Errorf("content: module %q: %w", m.Name, err)
			}
			for v := range m.Variants {
				as := m.As(m.Variants[v].Name)
				if err := p.pin(ctx, &as, true); err != nil {
					return fmt.Errorf("content: module %q, variant %q: %w", m.Name, as.Variant, err)
				}
				m.Variants[v].Content = as.Content
			}
		}
	}
	for i := range doc.Pools {
		if pool := &doc.Pools[i]; !pool.Emulated() {
			if err := p.pin(ctx, &pool.Network, len(pool.Profile.Points) > 0); err != nil {
				return fmt.Errorf("content: pool %q: %w", pool.Name, err)
			}
		}
	}
	return nil
}

// pin writes the files of a module into it.
func (p Pinning) pin(ctx context.Context, m *pipelines.Module, profiled bool) error {
	files, err := p.files(ctx, *m)
	if errors.Is(err, fs.ErrNotExist) && profiled && len(m.Command) == 0 && m.Function == "" {
		return nil
	}
	if err == nil {
		m.Content = files
	}
	return err
}

func (p Pinning) files(ctx context.Context, m pipelines.Module) ([]pipelines.File, error) {
	if pipelines.IsFetched(m.Model) && m.Function == "" {
		return p.fetched(ctx, m)
	}
	files, err := onDisk(m)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if err := p.send(ctx, f, f.Path); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// send gives a file that lies at a path to the store.
func (p Pinning) send(ctx context.Context, f pipelines.File, at string) error {
	if p.Store == nil {
		return nil
	}
	has, err := p.Store.Has(ctx, f.Digest)
	if has || err != nil {
		return err
	}
	if p.Progress != nil {
		p.Progress(fmt.Sprintf("sending %s %s to %s", filepath.Base(f.Path), f.Short(), p.Store))
	}
	from, _, err := osutil.OpenFile(at)
	if err != nil {
		return err
	}
	defer from.Close()
	err = p.Store.Put(ctx, f, from)
	if errors.As(err, new(*mismatchError)) {
		return fmt.Errorf("%s is being written to; apply again when that has ended: %w", f.Path, err)
	}
	return err
}

// fetched are the files of a model at an address: itself, and what it keeps beside
// itself.
func (p Pinning) fetched(ctx context.Context, m pipelines.Module) ([]pipelines.File, error) {
	if p.Store == nil {
		return nil, fmt.Errorf("its model is fetched from %s, and workers would not find what came of it: name a store that they see with --store", m.Model)
	}
	folder, err := os.MkdirTemp("", "harpagon-fetch-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	address, want := pipelines.FetchAddress(m.Model)
	first := filepath.Join(folder, "model.onnx")
	all, err := p.fetchOne(ctx, nil, address, first)
	if err != nil {
		return nil, err
	}
	if got := all[0].Digest; want != "" && got != want {
		return nil, &mismatchError{Where: address, Want: want, Got: got}
	}
	beside, err := onnx.ExternalData(first)
	if err != nil {
		return nil, err
	}
	scheme, where, _ := strings.Cut(address, "://")
	for _, name := range beside {
		at := scheme + "://" + path.Join(path.Dir(where), name)
		if all, err = p.fetchOne(ctx, all, at, filepath.Join(folder, "beside")); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (p Pinning) fetchOne(ctx context.Context, all []pipelines.File, address, to string) ([]pipelines.File, error) {
	if p.Progress != nil {
		p.Progress("fetching " + address)
	}
	if err := p.Fetch.fetch(ctx, address, to); err != nil {
		return nil, err
	}
	f, err := read(to)
	if err != nil {
		return nil, err
	}
	f.Path, f.Program = address, false
	return append(all, f), p.send(ctx, f, to)
}

// Fetcher gets models from addresses when a declaration is applied.
type Fetcher struct {
	Client   *http.Client      // for http and https; nil means http.DefaultClient
	Commands map[string]string // for other schemes: a command with {url} and {file} in it
}

// ParseCommands reads "SCHEME=COMMAND" settings, such as
// "s3=aws s3 cp {url} {file}".
func ParseCommands(settings []string) (map[string]string, error) {
	all := map[string]string{}
	for _, s := range settings {
		scheme, command, _ := strings.Cut(s, "=")
		if !slices.Contains(pipelines.FetchSchemes(), scheme) || !strings.Contains(command, "{file}") {
			return nil, fmt.Errorf("%q is no way to fetch: write SCHEME=COMMAND with one of the schemes %s and {url} and {file} in the command, such as \"s3=aws s3 cp {url} {file}\"", s, strings.Join(pipelines.FetchSchemes(), ", "))
		}
		all[scheme] = command
	}
	return all, nil
}

// fetchedFrom is where the file of a model is, and the digest that the declaration requires;
// the path itself of a model that is a file of this machine.
func fetchedFrom(model string) (address, digest string) {
	if pipelines.IsFetched(model) {
		return pipelines.FetchAddress(model)
	}
	return model, ""
}

// fetch writes the file at an address to a path.
func (f Fetcher) fetch(ctx context.Context, address, path string) error {
	scheme, _, _ := strings.Cut(address, "://")
	if scheme == "http" || scheme == "https" {
		return f.get(ctx, address, path)
	}
	command := f.Commands[scheme]
	if command == "" {
		return fmt.Errorf("nothing here fetches %s: give a command with --fetch '%s=COMMAND', with {url} and {file} in the command", address, scheme)
	}
	words := strings.Fields(command)
	for i := range words {
		words[i] = strings.ReplaceAll(strings.ReplaceAll(words[i], "{url}", address), "{file}", path)
	}
	var said bytes.Buffer
	c := exec.CommandContext(ctx, words[0], words[1:]...)
	c.Stdout, c.Stderr = &said, &said
	if err := c.Run(); err != nil {
		return fmt.Errorf("fetching %s by %q: %w: %s", address, command, err, strings.TrimSpace(said.String()))
	}
	return nil
}

func (f Fetcher) get(ctx context.Context, address, path string) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	client := f.Client
	if client == nil {
		client = http.DefaultClient
	}
	answer, err := client.Do(q)
	if err != nil {
		return fmt.Errorf("fetching a model: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("fetching a model: %s answers %s; check the module's model attribute", address, answer.Status)
	}
	to, err := os.Create(path)
	if err != nil {
		return err
	}
	n, err := io.Copy(to, io.LimitReader(answer.Body, maxFile+1))
	if err == nil && n > maxFile {
		err = tooLarge(address)
	}
	if closed := to.Close(); err == nil {
		err = closed
	}
	return err
}
