//go:build !noserver

package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/onnxruntime"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/local"
)

// engineHCL declares a pool that answers as the network does, in its own way.
const engineHCL = `
pool "by-%[1]s" {
  %[2]s
  engine   = "%[1]s"
  sizes    = "sizes.csv"
  slo      = "10s"
  budget   = 0.1
  base     = "%[3]s"
  hardware = ["%[3]s"]
  plan {
    policy = "kairos"
  }
  input "wide" {
    datatype = "FP32"
    shape    = [48]
  }
  input "dense" {
    datatype = "FP32"
    shape    = [64]
  }
  output "click" {
    value = model.click
  }
}
`

// Whatever computes a pool's network, it gets a query as one batch, the size of the query before
// the other dimensions, and the pool answers as the network does item by item.
func TestPoolsOfAllEnginesAnswerAlike(t *testing.T) {
	here, err := os.Getwd()
	require.NoError(t, err)
	far, err := open(t.Context(), "far", largest)
	require.NoError(t, err)
	defer far.net.Close()
	server := httptest.NewServer(far.handler())
	defer server.Close()
	file := fmt.Sprintf("model = %q", filepath.Join(here, "ranking.onnx"))
	var missing error
	if c, ok := onnxruntime.New(onnxruntime.Options{}).(executors.Checker); ok {
		missing = c.Available()
	}
	table := []struct {
		engine, model, hardware string
		missing                 error
	}{
		{engine: "onnxruntime", model: file, hardware: "core", missing: missing},
		{engine: "gorgonia", model: file, hardware: "core"},
		{engine: "process", model: fmt.Sprintf("command = [%q, %q]", os.Args[0], asCommand), hardware: "core"},
		{engine: "remote", model: fmt.Sprintf("model = %q", server.URL+"/far"), hardware: "elsewhere"},
	}
	declared := "hardware \"core\" {\n  price = 0.1\n  cores = 1\n  count = 3\n}\n\nhardware \"elsewhere\" {\n  price = 0.1\n}\n"
	for _, row := range table {
		if row.missing == nil {
			declared += fmt.Sprintf(engineHCL, row.engine, row.model, row.hardware)
		}
	}
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "pools.hcl"), []byte(declared), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "sizes.csv"), []byte("size,weight\n1,5\n7,3\n150,1\n640,1\n"), 0o600))
	s, err := local.Start(t.Context(), local.Options{
		Files: []string{folder}, StateDir: t.TempDir(), Environ: []string{}, Cores: 3, WithoutUI: true, Progress: func(line string) { t.Log(line) },
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	client, err := sdk.Dial(t.Context(), s.GatewayURL)
	require.NoError(t, err)
	defer client.Close()
	alone, err := open(t.Context(), "alone", 1)
	require.NoError(t, err)
	defer alone.net.Close()
	for _, row := range table {
		t.Run(row.engine, func(t *testing.T) {
			if row.missing != nil {
				t.Skip(row.missing)
			}
			far.seen = nil
			for _, size := range []int{1, 2, 7, 150, 640} {
				answer := compare(t, client, alone, "by-"+row.engine, size)
				require.Len(t, answer.Stages(), 1)
				assert.Equal(t, size, answer.Stages()[0].Batch)
			}
			if row.engine == "remote" {
				assert.Equal(t, []int64{1, 2, 7, 150, 640}, slices.Compact(far.seen), "the server gets queries as they came, again where one was late")
			}
		})
	}
}

// A pool that runs elsewhere is compared, too: HARPAGON_GATEWAY names its gateway.
func TestARunningPoolAnswersAsTheNetworkDoes(t *testing.T) {
	address := os.Getenv("HARPAGON_GATEWAY")
	if address == "" {
		t.Skip("HARPAGON_GATEWAY names no gateway of a pool \"ranking\"")
	}
	client, err := sdk.Dial(t.Context(), address)
	require.NoError(t, err)
	defer client.Close()
	alone, err := open(t.Context(), "alone", 1)
	require.NoError(t, err)
	defer alone.net.Close()
	for size := 1; size <= 1000; size += 9 {
		compare(t, client, alone, "ranking", size)
	}
}
