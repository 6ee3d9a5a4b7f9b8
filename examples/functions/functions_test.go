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

// quickFunction is a function of a few milliseconds; URL stands for its
// provider.
const quickFunction = `provider "cloud" {
  gpu_gb_second = 0.000015
  invocation    = 0.00000013
  gpu_memory    = { min = 1, max = 8, step = 1 }
  url           = "URL/v2/models/{function}-{platform}-{size}"
}

function "ranker" {
  provider = provider.cloud
  profile  = "ranker.json"

  input "x" {
    datatype = "FP32"
    shape    = [2]
  }

  application "hasty" {
    slo  = "300ms"
    rate = 30
  }

  application "calm" {
    slo  = "600ms"
    rate = 60
  }
}
`

func quickFolder(t *testing.T, url string) string {
	return folderOf(t, map[string]string{
		"ranker.hcl":  strings.Replace(quickFunction, "URL", url, 1),
		"ranker.json": `{"gpu":{"xi1":0.001,"xi2":0.002,"Mmax_gb":8}}`,
	})
}

func folderOf(t *testing.T, files map[string]string) string {
	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
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
		ended <- run(ctx, []string{"-listen", "127.0.0.1:0", "-cold-start", "0", "-steady", quickFolder(t, "http://127.0.0.1:9100")}, &out)
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
	here := quickFolder(t, "http://127.0.0.1:9100")
	two := folderOf(t, map[string]string{
		"a.hcl":       strings.Replace(quickFunction, "URL", "http://127.0.0.1:9100", 1) + "\nprovider \"other\" {\n  vcpu_second = 1\n  invocation  = 0\n  vcpu        = { min = 1, max = 2, step = 1 }\n}\n",
		"ranker.json": `{"gpu":{"xi1":0.001,"xi2":0.002,"Mmax_gb":8}}`,
	})
	for want, args := range map[string][]string{
		"is on functions.example.com; this stands in for a provider on this machine only": {quickFolder(t, "http://functions.example.com")},
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
