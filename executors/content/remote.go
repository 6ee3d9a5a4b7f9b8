package content

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire/secure"
)

// remote is a store that is served over HTTP.
type remote struct {
	base   string
	client *http.Client
	token  string
}

func newRemote(address string, c secure.Credentials) (*remote, error) {
	at, err := url.Parse(address)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || at.User != nil {
		return nil, fmt.Errorf("content: %q is no store; name a folder, or an address such as https://control:8092 without a password in it", address)
	}
	if err := c.MaySend(at.Hostname(), at.Scheme == "https"); err != nil {
		return nil, fmt.Errorf("content: the store %s: %w", address, err)
	}
	return &remote{base: strings.TrimSuffix(address, "/"), client: c.Identity.HTTP(), token: c.Token}, nil
}

func (r *remote) String() string { return r.base }

// do asks for a content; the status is below 300, or 404.
func (r *remote) do(ctx context.Context, method, digest string, body io.Reader, size int64) (*http.Response, error) {
	if err := pipelines.CheckDigest(digest); err != nil {
		return nil, err
	}
	q, err := http.NewRequestWithContext(ctx, method, r.base+"/sha256/"+strings.TrimPrefix(digest, "sha256:"), body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		q.ContentLength = size
	}
	if r.token != "" {
		q.Header.Set("Authorization", "Bearer "+r.token)
	}
	answer, err := r.client.Do(q)
	if err != nil {
		return nil, fmt.Errorf("the store %s does not answer: %w", r, err)
	}
	if answer.StatusCode >= 300 && answer.StatusCode != http.StatusNotFound {
		defer answer.Body.Close()
		why, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
		return nil, fmt.Errorf("the store %s refuses: %s %s", r, answer.Status, strings.TrimSpace(string(why)))
	}
	return answer, nil
}

func (r *remote) Open(ctx context.Context, digest string) (io.ReadCloser, error) {
	answer, err := r.do(ctx, http.MethodGet, digest, nil, 0)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode == http.StatusNotFound {
		_ = answer.Body.Close()
		return nil, fmt.Errorf("it %w in the store %s", errLacks, r)
	}
	return answer.Body, nil
}

func (r *remote) Has(ctx context.Context, digest string) (bool, error) {
	answer, err := r.do(ctx, http.MethodHead, digest, nil, 0)
	if err != nil {
		return false, err
	}
	return answer.StatusCode != http.StatusNotFound, answer.Body.Close()
}

func (r *remote) Put(ctx context.Context, f pipelines.File, from io.Reader) error {
	answer, err := r.do(ctx, http.MethodPut, f.Digest, io.NopCloser(from), f.Size)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusNotFound {
		return fmt.Errorf("the store %s takes nothing; name the address of a control role's --store-listen", r)
	}
	return nil
}
