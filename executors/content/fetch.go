package content

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/pipelines"
)

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
			return nil, fmt.Errorf("%q says not how to fetch: write SCHEME=COMMAND with one of the schemes %s and {url} and {file} in the command, such as \"s3=aws s3 cp {url} {file}\"", s, strings.Join(pipelines.FetchSchemes(), ", "))
		}
		all[scheme] = command
	}
	return all, nil
}

// fetchedFrom is where the file of a model is, and the digest that the declaration
// asks for; the path itself of a model that is a file of this machine.
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
		return fmt.Errorf("nothing here fetches %s: say how with --fetch '%s=COMMAND', with {url} and {file} in the command", address, scheme)
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
