package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// changed is the folder testdata with another declaration.
func changed(t *testing.T, change func(text string) string) string {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata")))
	path := filepath.Join(dir, "ranker.hcl")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte(change(string(text))), 0o600))
	return dir
}

// safe is a buffer that may be read while it is written to.
type safe struct {
	mu sync.Mutex
	bytes.Buffer
}

func (s *safe) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Buffer.Write(p)
}

func (s *safe) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.String()
}

func TestProviderRunsAndBills(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out safe
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"-listen", "127.0.0.1:0", "-cold-start", "0", "-steady", "testdata"}, &out)
	}()
	bill := regexp.MustCompile(`(http://127\.0\.0\.1:\d+)/billing`)
	require.Eventually(t, func() bool { return bill.MatchString(out.text()) }, 20*time.Second, 10*time.Millisecond)
	base := bill.FindStringSubmatch(out.text())[1]
	resp, err := http.Post(base+"/v2/models/ranker-gpu-2/infer", "application/json",
		strings.NewReader(`{"inputs":[{"name":"x","datatype":"FP32","shape":[3,2],"data":[1,2,3,4,5,6]}]}`))
	require.NoError(t, err)
	text, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	require.Equal(t, 200, resp.StatusCode, string(text))
	cancel()
	assert.NoError(t, <-ended)
	assert.Contains(t, out.text(), "provider cloud runs 1 function")
	assert.Contains(t, out.text(), "ranker-gpu-2: 1 calls with 3 requests, 1 cold starts, 0 refused")
	assert.Contains(t, out.text(), "per million requests")
}

func TestProviderRefusals(t *testing.T) {
	const here = "testdata"
	away := changed(t, func(text string) string { return strings.Replace(text, "127.0.0.1:9100", "functions.example.com", 1) })
	two := changed(t, func(text string) string {
		return text + "\nprovider \"other\" {\n  vcpu_second = 1\n  invocation  = 0\n  vcpu        = { min = 1, max = 2, step = 1 }\n}\n"
	})
	for want, args := range map[string][]string{
		"is on functions.example.com; this stands in for a provider on this machine only": {away},
		"write HOST:PORT": {"-listen", "nowhere", here},
		"this stands in for a provider on this machine only": {"-listen", "0.0.0.0:9100", here},
		"write profile or share":                             {"-pace", "slow", here},
		"has no model":                                       {"-pace", "share", here},
		"no provider of that name":                           {"-provider", "none", here},
		"declare no provider":                                {"../emulated"},
		"several providers":                                  {two},
		`provider "other" has no url`:                        {"-provider", "other", two},
	} {
		assert.ErrorContains(t, run(t.Context(), args, io.Discard), want)
	}
}
