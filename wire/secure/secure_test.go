package secure_test

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/oip"
	"github.com/harpagon/harpagon/wire/secure"
	"github.com/harpagon/harpagon/wire/secure/securetest"
)

// serve answers "yes" to those whom the credentials admit.
func serve(t *testing.T, c secure.Credentials) string {
	l, err := listen.HTTP("127.0.0.1:0", c, 0)
	require.NoError(t, err)
	yes := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("yes")) }
	server := &http.Server{Handler: oip.Authorized(c.Guard(), "this server", yes)}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return l.Addr().String()
}

// ask returns the server's answer to a new connection.
func ask(t *testing.T, i *secure.Identity, url, token string) (string, error) {
	transport := i.Transport(&http.Transport{DisableKeepAlives: true})
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	if token != "" {
		q.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := (&http.Client{Transport: transport}).Do(q)
	if err != nil {
		return "", secure.Explain(err, "the server")
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return string(body), nil
}

func load(t *testing.T, f secure.Files) *secure.Identity {
	i, err := secure.Load(f)
	require.NoError(t, err)
	return i
}

func TestWhoMayComeIn(t *testing.T) {
	ca, other := securetest.New(t, "ours"), securetest.New(t, "theirs")
	at := serve(t, secure.Credentials{Token: "secret", Identity: ca.Identity(t)})
	own := ca.Identity(t)
	files := ca.Issue(t, t.TempDir(), time.Hour)
	anonymous := load(t, secure.Files{CA: files.CA})
	stranger := other.Issue(t, t.TempDir(), time.Hour)
	for name, c := range map[string]struct {
		identity   *secure.Identity
		url, token string
		says       string // of the server
		err        string // of the connection
	}{
		"its certificate":     {identity: own, says: "yes"},
		"the token":           {identity: anonymous, token: "secret", says: "yes"},
		"neither":             {identity: anonymous, says: "requires a certificate of its CA, or a token"},
		"a wrong token":       {identity: anonymous, token: "secrex", says: "requires a certificate of its CA, or a token"},
		"another CA's":        {identity: load(t, secure.Files{Cert: stranger.Cert, Key: stranger.Key, CA: files.CA}), err: "does not take this side's certificate"},
		"trusts another CA":   {identity: load(t, stranger), err: "not from a CA that this side trusts; give that CA with --tls-ca"},
		"trusts the system":   {url: "https://", err: "certificate"},
		"speaks plain to TLS": {url: "http://", says: "HTTP request to an HTTPS server"},
	} {
		t.Run(name, func(t *testing.T) {
			url := "https://" + at
			if c.url == "http://" || c.url == "https://" {
				url = c.url + at
			} else if c.url != "" {
				return
			}
			says, err := ask(t, c.identity, url, c.token)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Contains(t, says, c.says)
		})
	}
}

func TestExpired(t *testing.T) {
	ca := securetest.New(t, "ours")
	_, err := secure.Load(ca.Issue(t, t.TempDir(), -time.Minute))
	require.ErrorContains(t, err, "has expired")

	// It expires while it is in use; valid long enough to be read.
	soon := ca.Issue(t, t.TempDir(), 2*time.Second)
	at := serve(t, secure.Credentials{Identity: load(t, soon)})
	client := ca.Identity(t)
	require.Eventually(t, func() bool {
		_, err := ask(t, client, "https://"+at, "")
		return err != nil
	}, 20*time.Second, 200*time.Millisecond)
	_, err = ask(t, client, "https://"+at, "")
	require.ErrorContains(t, err, "is not valid now")
	require.ErrorContains(t, err, "renew it there")
}

func TestRotatedWhileConnected(t *testing.T) {
	first, second := securetest.New(t, "first"), securetest.New(t, "second")
	here, there := t.TempDir(), t.TempDir()
	server := load(t, first.Issue(t, here, time.Hour))
	client := load(t, first.Issue(t, there, time.Hour))
	at := serve(t, secure.Credentials{Identity: server})
	kept := &http.Client{Transport: client.Transport(&http.Transport{})}
	yes := func(c *http.Client) {
		answer, err := c.Get("https://" + at)
		require.NoError(t, err)
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.Equal(t, "yes", string(body))
		_ = answer.Body.Close()
	}
	yes(kept)
	old := load(t, first.Issue(t, t.TempDir(), time.Hour))
	second.Issue(t, here, time.Hour)
	second.Issue(t, there, time.Hour)
	yes(kept)
	require.Eventually(t, func() bool {
		_, err := ask(t, old, "https://"+at, "")
		return err != nil && strings.Contains(err.Error(), "--tls-ca")
	}, 20*time.Second, 100*time.Millisecond, "who trusts only the first CA is a stranger now")
	require.Eventually(t, func() bool {
		says, err := ask(t, client, "https://"+at, "")
		return err == nil && says == "yes"
	}, 20*time.Second, 100*time.Millisecond, "new connections use the new certificates")
	yes(kept)

	require.NoError(t, os.WriteFile(there+"/cert.pem", []byte("half"), 0o600))
	require.Eventually(t, func() bool { return client.Failed() != nil }, 20*time.Second, 100*time.Millisecond)
	says, err := ask(t, client, "https://"+at, "")
	require.NoError(t, err, "what was read before holds")
	require.Equal(t, "yes", says)
}

func TestACertificateExpiresWhileItIsHeld(t *testing.T) {
	held := load(t, securetest.New(t, "ours").Issue(t, t.TempDir(), 2*time.Second))
	require.Eventually(t, func() bool {
		err := held.Failed()
		return err != nil && strings.Contains(err.Error(), "has expired on")
	}, 20*time.Second, 100*time.Millisecond)
}

func TestLoadRefuses(t *testing.T) {
	good := securetest.New(t, "ours").Issue(t, t.TempDir(), time.Hour)
	other := securetest.New(t, "ours").Issue(t, t.TempDir(), time.Hour)
	for says, f := range map[string]secure.Files{
		"belong together":     {Cert: good.Cert},
		"give --tls-cert":     {Key: good.Key},
		"does not match":      {Cert: good.Cert, Key: other.Key},
		"--tls-ca":            {CA: "/does/not/exist"},
		"holds no certificat": {CA: good.Key},
		"no such file":        {Cert: "/does/not/exist", Key: good.Key},
	} {
		_, err := secure.Load(f)
		require.ErrorContains(t, err, says)
	}
	i, err := secure.Load(secure.Files{})
	require.NoError(t, err)
	require.Nil(t, i)
	_, err = listen.HTTP("127.0.0.1:0", secure.Credentials{Identity: load(t, secure.Files{CA: good.CA})}, 0)
	require.ErrorContains(t, err, "needs a certificate")
}

func TestWhereCredentialsMayTravel(t *testing.T) {
	identity := securetest.New(t, "ours").Identity(t)
	for _, c := range []struct {
		credentials secure.Credentials
		address     string
		says        string
	}{
		{secure.Credentials{}, "127.0.0.1:1", ""},
		{secure.Credentials{}, "[::1]:1", ""},
		{secure.Credentials{}, ":1", "--tls-ca"},
		{secure.Credentials{Token: "t"}, ":1", "--plaintext"},
		{secure.Credentials{Token: "t", Plain: true}, ":1", ""},
		{secure.Credentials{Token: "t", Identity: identity}, ":1", ""},
		{secure.Credentials{Identity: identity}, ":1", ""},
		{secure.Credentials{}, "nowhere", "HOST:PORT"},
	} {
		err := c.credentials.MayListen(c.address)
		if c.says == "" {
			require.NoError(t, err, c)
		} else {
			require.ErrorContains(t, err, c.says, c)
		}
	}
	token := secure.Credentials{Token: "t"}
	require.NoError(t, token.MaySend("localhost", false))
	require.NoError(t, token.MaySend("gateway", true))
	require.ErrorContains(t, token.MaySend("gateway", false), "without TLS")
	require.NoError(t, secure.Credentials{}.MaySend("gateway", false))
}
