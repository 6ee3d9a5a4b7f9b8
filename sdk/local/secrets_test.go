//go:build !noserver

package local_test

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/harpagon/harpagon/examples/functions/provider"
	"github.com/harpagon/harpagon/gateway/console"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/local"
	"github.com/harpagon/harpagon/sdk/local/system"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/secure"
	"github.com/harpagon/harpagon/wire/secure/securetest"
)

// TestSecretsAreNotRevealed gives a system secrets, has it use them, also with a provider that
// repeats what it was sent in its refusal, and searches all that is written or printed for
// them.
func TestSecretsAreNotRevealed(t *testing.T) {
	const variable = "CLOUD_TOKEN_OF_THE_TEST"
	secrets := map[string]string{"provider's token": "cloud-5c1e7d", "gateway's token": "gateway-91b2aa", "caller's token": "caller-e07f43"}
	t.Setenv(variable, secrets["provider's token"])

	var answers http.Handler = http.NotFoundHandler()
	var sent, refuse atomic.Int64
	cloud := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given := r.Header.Get("Authorization")
		if given == "Bearer "+secrets["provider's token"] {
			sent.Add(1)
		}
		if refuse.Load() > 0 && r.Method == http.MethodPost {
			http.Error(w, `{"error": "not for `+given+`"}`, http.StatusForbidden)
			return
		}
		answers.ServeHTTP(w, r)
	}))
	defer cloud.Close()
	files, state := t.TempDir(), t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(files, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	write("ranker.hcl", strings.Replace(ranker, "URL/v2/models/{function}-{platform}-{size}\"", cloud.URL+"/v2/models/{function}-{platform}-{size}\"\n  token_variable = \""+variable+"\"", 1))
	write("ranker.json", `{"gpu":{"xi1":0.001,"xi2":0.002,"Mmax_gb":8}}`)
	host, err := provider.New(provider.Options{Problems: []functions.Problem{declared(t, files)}, ColdStart: -1})
	require.NoError(t, err)
	defer host.Close()
	answers = host
	tokens, err := secure.LoadTokens(write("tokens", fmt.Sprintf("alice infer:ranker,read sha256:%x\n", sha256.Sum256([]byte(secrets["caller's token"])))))
	require.NoError(t, err)

	certificate := securetest.New(t, "secrets").Issue(t, t.TempDir(), time.Hour)
	written, err := os.ReadFile(certificate.Key)
	require.NoError(t, err)
	block, _ := pem.Decode(written)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	require.NoError(t, err)
	number, err := key.(*ecdsa.PrivateKey).Bytes()
	require.NoError(t, err)
	secrets["TLS key"], secrets["TLS key as text"] = string(number), strings.Split(string(written), "\n")[2]
	secrets["TLS key in hex"] = hex.EncodeToString(number)
	identity, err := secure.Load(secure.Files{Cert: certificate.Cert, Key: certificate.Key})
	require.NoError(t, err)
	believing, err := secure.Load(secure.Files{CA: certificate.CA})
	require.NoError(t, err)
	browser := &http.Client{Transport: &http.Transport{TLSClientConfig: believing.Client("")}}
	defer browser.CloseIdleConnections()

	var told strings.Builder // what people and programs can read
	recording := filepath.Join(state, "recording")
	s, err := local.Start(t.Context(), local.Options{
		Files: []string{files}, StateDir: state, Environ: []string{}, Record: recording,
		Credentials: secure.Credentials{Token: secrets["gateway's token"], Tokens: tokens, Identity: identity},
		Progress:    func(text string) { t.Log(text) },
	})
	require.NoError(t, err)
	defer s.Close()
	caller, err := sdk.Dialer{Token: secrets["caller's token"], TLS: secure.Files{CA: certificate.CA}}.Dial(t.Context(), s.GatewayURL)
	require.NoError(t, err)
	ask := func() error {
		_, err := caller.Infer(t.Context(), "ranker/calm", sdk.Inputs{"x": wire.FromFloat32([]float32{1, 2}, 2)})
		return err
	}
	require.NoError(t, ask())
	assert.Positive(t, sent.Load(), "the provider got its token")
	refuse.Store(1)
	err = ask()
	require.Error(t, err)
	fmt.Fprintln(&told, err)
	_, err = sdk.Dialer{Token: "wrong", TLS: secure.Files{CA: certificate.CA}}.Dial(t.Context(), s.GatewayURL)
	fmt.Fprintln(&told, err)
	_, err = secure.Load(secure.Files{Cert: certificate.CA, Key: certificate.Key})
	require.Error(t, err, "the key of another certificate")
	fmt.Fprintln(&told, err)

	get := func(path string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.GatewayURL+path, nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+secrets["gateway's token"])
		reply, err := browser.Do(r)
		require.NoError(t, err)
		defer reply.Body.Close()
		text, err := io.ReadAll(reply.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, reply.StatusCode, path)
		told.Write(text)
	}
	for _, path := range []string{"/metrics", console.Root, console.Root + "services/ranker", "/v2", "/v2/models", "/v2/models/ranker"} {
		get(path)
	}
	statuses, err := system.Control(s.Temporal(), local.Options{}).Statuses(t.Context(), "ranker")
	require.NoError(t, err)
	require.NoError(t, json.NewEncoder(&told).Encode(statuses))
	told.WriteString(statuses[0].Describe()) // the output of explain
	assert.Contains(t, told.String(), "ranker")

	histories := histories(t, s)
	assert.Contains(t, histories, variable, "histories have the declaration, so that a secret would be seen")
	require.NoError(t, s.Close())
	places := map[string]string{"what is shown": told.String(), "histories": histories}
	require.NoError(t, filepath.WalkDir(state, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		places[path] = string(text)
		return err
	}))
	assert.NotEmpty(t, places[recording])
	assert.NotEmpty(t, places[filepath.Join(state, "harpagon.log")])
	for place, text := range places {
		for whose, secret := range secrets {
			if at := strings.Index(text, secret); at >= 0 {
				t.Errorf("%s: the %s: ...%q", place, whose, text[max(0, at-100):min(len(text), at+50)])
			}
		}
	}
}

// histories are all events of all workflows, as text.
func histories(t *testing.T, s *local.System) string {
	t.Helper()
	var b strings.Builder
	all, err := s.Temporal().ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{})
	require.NoError(t, err)
	for _, w := range all.Executions {
		b.WriteString(w.String())
		events := s.Temporal().GetWorkflowHistory(t.Context(), w.Execution.WorkflowId, w.Execution.RunId, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			e, err := events.Next()
			require.NoError(t, err)
			b.WriteString(e.String())
		}
	}
	return b.String()
}
