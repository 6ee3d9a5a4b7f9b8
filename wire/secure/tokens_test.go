package secure_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/secure"
)

func line(name, scopes, token string) string {
	return fmt.Sprintf("%s %s sha256:%x\n", name, scopes, sha256.Sum256([]byte(token)))
}

func bearer(token string) []string {
	return http.Header{"Authorization": {"Bearer " + token}}["Authorization"]
}

func TestTokensAreGoodForTheirScopes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	text := "# who may what\n\n" + line("alice", "infer:traffic,read", "a") + line("app", "infer", "b") + line("gpu-7", "join", "c") + line("ci", "apply", "d")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	tokens, err := secure.LoadTokens(path)
	require.NoError(t, err)
	guard := secure.Credentials{Token: "shared", Tokens: tokens}.Guard()
	require.False(t, guard.Open())
	asked := []secure.Scope{secure.InferAt("traffic"), secure.InferAt("voice/fast"), secure.Read, secure.Apply, secure.Join}
	for token, good := range map[string]string{
		"a": "10100", "b": "11000", "c": "00001", "d": "00010", "shared": "11111", "x": "00000", "": "00000",
	} {
		got := ""
		for _, s := range asked {
			got += map[bool]string{true: "1", false: "0"}[guard.For(s).Admits(bearer(token), nil)]
		}
		require.Equal(t, good, got, "token %q for %v", token, asked)
	}
	require.Equal(t, "alice", guard.Tenant(bearer("a")).Name)
	require.Nil(t, guard.Tenant(bearer("shared")))
	require.False(t, guard.Admits([]string{"a"}, nil), "no bearer")
	require.Contains(t, guard.For(secure.Join).Refusal("this gateway"), "scope join")
	require.NoError(t, secure.Credentials{Tokens: tokens, Plain: true}.MayListen(":1"))
	require.ErrorContains(t, secure.Credentials{Tokens: tokens}.MayListen(":1"), "--plaintext")
}

func TestTokensAreReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(path, []byte(line("alice", "read", "a")), 0o600))
	tokens, err := secure.LoadTokens(path)
	require.NoError(t, err)
	guard := secure.Credentials{Tokens: tokens}.Guard()
	soon := func(token string, good bool) {
		require.Eventually(t, func() bool { return guard.Admits(bearer(token), nil) == good }, 20*time.Second, 50*time.Millisecond)
	}
	soon("a", true)
	require.NoError(t, os.WriteFile(path, []byte(line("alice", "read", "b")), 0o600))
	soon("b", true)
	soon("a", false)
	require.NoError(t, os.WriteFile(path, []byte("half a l"), 0o600))
	require.Eventually(t, func() bool { return tokens.Failed() != nil }, 20*time.Second, 50*time.Millisecond)
	require.True(t, guard.Admits(bearer("b"), nil), "what was read before holds")
	require.NoError(t, os.Remove(path))
	require.True(t, guard.Admits(bearer("b"), nil))
}

func TestWhatIsWrongWithFilesIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "tokens")
		good := []byte(line("alice", "read", "a"))
		require.NoError(t, os.WriteFile(path, good, 0o600))
		tokens, err := secure.LoadTokens(path)
		require.NoError(t, err)
		var told []string
		go secure.Credentials{Tokens: tokens}.Watch(t.Context(), func(line string) { told = append(told, line) })
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, told)
		require.NoError(t, os.WriteFile(path, []byte(line("alice", "fly", "a")), 0o600))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"secure: --tokens " + path + `: line 1: there is no scope "fly"; the scopes are infer, infer:SERVICE, read, apply, join; what was read last stays in force`}, told)
		require.NoError(t, os.WriteFile(path, good, 0o600))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, "secure: the tokens are read again", told[len(told)-1])
		require.Len(t, told, 2, "once each")
	})
}

func TestTokensRefuse(t *testing.T) {
	good := line("alice", "read", "a")
	for says, text := range map[string]string{
		`there is no scope "wirte"`: line("bob", "read,wirte", "b"),
		`no scope "infer:"`:         line("bob", "infer:", "b"),
		`no scope ""`:               line("bob", "read,", "b"),
		"line 2: there is a token":  good + line("alice", "read", "b"),
		"the same as another":       good + line("bob", "read", "a"),
		"a line has three":          "bob read\n",
		"64 hexadecimal digits":     "bob read sha256:abc\n",
		"make it with":              "bob read secret\n",
		"the token is empty":        line("bob", "read", ""),
		"holds no token":            "# nobody\n",
		`"quota=3" is not known`:    strings.TrimSpace(line("bob", "read", "b")) + " quota=3",
		"weight=0 is no number":     strings.TrimSpace(line("bob", "read", "b")) + " weight=0",
		"weight=NaN is no number":   strings.TrimSpace(line("bob", "read", "b")) + " weight=NaN",
		"rate=fast is no number":    strings.TrimSpace(line("bob", "read", "b")) + " rate=fast",
		"rate is given twice":       strings.TrimSpace(line("bob", "read", "b")) + " rate=1 rate=2",
	} {
		_, err := secure.ParseTokens([]byte(text))
		require.ErrorContains(t, err, says)
	}
	_, err := secure.LoadTokens(filepath.Join(t.TempDir(), "none"))
	require.ErrorContains(t, err, "--tokens")
	none, err := secure.LoadTokens("")
	require.NoError(t, err)
	require.Nil(t, none)
	require.True(t, secure.Credentials{Tokens: none}.Guard().Open())
}

func TestTokensHaveWeightsAndRates(t *testing.T) {
	all, err := secure.ParseTokens([]byte(line("alice", "infer", "a") + strings.TrimSpace(line("bob", "infer", "b")) + "  weight=0.5 rate=20\n"))
	require.NoError(t, err)
	require.Equal(t, wire.Tenant{Name: "alice"}, all[0].Tenant)
	require.Equal(t, wire.Tenant{Name: "bob", Weight: 0.5, Rate: 20}, all[1].Tenant)
}

func FuzzTokens(f *testing.F) {
	f.Add([]byte(line("alice", "infer", "a")[:len(line("alice", "infer", "a"))-1] + " weight=2 rate=1e3"))
	f.Add([]byte(line("alice", "infer:traffic,read", "a") + "# x\n\n" + line("b", "join", "b")))
	f.Add([]byte("a infer:,x sha256:00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		defer testkit.WatchStalls(t, len(text))()
		all, err := secure.ParseTokens(text)
		if err != nil {
			return
		}
		require.NotEmpty(t, all)
		for _, one := range all {
			require.NotEmpty(t, one.Scopes)
			require.False(t, strings.ContainsAny(one.Name, " \t\n"))
		}
	})
}
