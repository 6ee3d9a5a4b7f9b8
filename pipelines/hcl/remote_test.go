package hcl

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
)

func TestParseRemote(t *testing.T) {
	r, err := pipelines.ParseRemote("grpc://127.0.0.1:8001/resnet")
	require.NoError(t, err)
	assert.Equal(t, pipelines.Remote{Scheme: "grpc", Host: "127.0.0.1:8001", Model: "resnet"}, r)
	r, err = pipelines.ParseRemote("https://[::1]/a/b?version=3&batch=single&timeout=1.5s&token_variable=T_1")
	require.NoError(t, err)
	assert.Equal(t, pipelines.Remote{Scheme: "https", Host: "[::1]", Model: "a/b", Version: "3", Batch: pipelines.BatchSingle, Timeout: 1500 * time.Millisecond, TokenVariable: "T_1"}, r)
	for address, want := range map[string]string{
		"tcp://h:1/m":                  `"tcp" is no protocol`,
		"grpc://h/m":                   "has no port",
		"http:///m":                    `"" is no host`,
		"http://h h/m":                 "is no host",
		"http://me:secret@h/m":         "holds a name or password",
		"http://h:1":                   "names no model",
		"http://h:1/":                  "names no model",
		"http://h:1/a/":                "names no model",
		"http://h:1/m?batch=2":         "batch=2 means nothing",
		"http://h:1/m?timeout=2":       "is no duration",
		"http://h:1/m?timeout=-1s":     "is no duration",
		"http://h:1/m?token_variable=": "not the name of an environment variable",
		"http://h:1/m?timout=2s":       `Did you mean "timeout"?`,
	} {
		_, err := pipelines.ParseRemote(address)
		assert.ErrorContains(t, err, want, address)
	}
}

func TestServedModules(t *testing.T) {
	module := func(body string) string {
		return "pipeline \"p\" {\n  slo = \"1s\"\n  rate = 1\n  input \"x\" {\n    datatype = \"FP32\"\n    shape = [1]\n  }\n" +
			"  module \"m\" {\n    inputs = { x = input.x }\n    " + strings.ReplaceAll(body, "; ", "\n    ") + "\n  }\n  output \"y\" { value = module.m.y }\n}\n" +
			"hardware \"cpu\" { price = 1 }\n"
	}
	for body, want := range map[string]string{
		`model = "grpc://h:1/m"`:                      "",
		`model = "grpc://h:1/m"; engine = "remote"`:   "",
		`command = ["python3", "./serve.py"]`:         "",
		`command = ["python3"]; engine = "process"`:   "",
		`model = "grpc://h:1/m"; engine = "gorgonia"`: "the model is on a server",
		`model = "grpc://h/m"`:                        "has no port",
		`engine = "remote"`:                           "The engine remote asks a server",
		`engine = "process"`:                          "The engine process starts a program",
		`command = ["a"]; engine = "gorgonia"`:        "starts no command",
		`command = ["a"]; model = "http://h/m"`:       "leave out either",
		`command = ["a"]; function = "f"`:             "either a processing step",
		`command = [""]`:                              "first element of a command",
		`command = ["a"]; model = "nowhere.pt"`:       "nowhere.pt does not exist",
	} {
		config, found := Parse("/tmp/d/p.hcl", []byte(module(body)))
		require.False(t, found.HasErrors(), "%s: %v", body, found)
		found = config.Validate(nil)
		if want == "" {
			again, found := Parse("/tmp/d/p.hcl", HCL(config.Document))
			require.False(t, found.HasErrors())
			assert.Equal(t, config.Document, again.Document)
			assert.False(t, found.HasErrors(), "%s: %v", body, found)
			continue
		}
		assert.Contains(t, found.Error(), want, body)
	}
}
