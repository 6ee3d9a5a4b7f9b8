package console

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/overlay"
)

// browser is a Chromium without a window that is spoken to by the DevTools protocol, in
// messages that end with a zero byte.
type browser struct {
	t       *testing.T
	to      *os.File
	said    []string // on the page's console: refusals of the policy, errors of scripts
	in      <-chan message
	session string
	sent    int
}

// message is one of the protocol.
type message struct {
	ID     int             `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
}

// openBrowser starts one with an empty page; the test skips where there is none.
func openBrowser(t *testing.T) *browser {
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil && program == "" {
			program = path
		}
	}
	if program == "" {
		t.Skip("needs chromium")
	}
	theirs, to, err := os.Pipe()
	require.NoError(t, err)
	from, ours, err := os.Pipe()
	require.NoError(t, err)
	folder, err := os.MkdirTemp("", "browser")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	cmd := exec.CommandContext(ctx, program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--remote-debugging-pipe", "--user-data-dir="+folder, "about:blank")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its helpers end with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.ExtraFiles = []*os.File{theirs, ours}
	require.NoError(t, cmd.Start())
	_, _ = theirs.Close(), ours.Close()
	in := make(chan message, 1000)
	go func() {
		defer close(in)
		for r := bufio.NewReader(from); ; {
			text, err := r.ReadBytes(0)
			if err != nil {
				return
			}
			var m message
			if json.Unmarshal(text[:len(text)-1], &m) == nil {
				in <- m
			}
		}
	}()
	b := &browser{t: t, to: to, in: in}
	t.Cleanup(func() {
		b.session = ""
		_ = to.Close()
		cancel()
		_ = cmd.Wait()
		_ = from.Close()
		for tries := 0; os.RemoveAll(folder) != nil && tries < 100; tries++ {
			time.Sleep(50 * time.Millisecond) // a helper that has not ended yet writes there
		}
	})
	var made struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &made)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": made.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	b.call("Log.enable", nil, nil)
	b.call("Runtime.enable", nil, nil)
	return b
}

// call sends a command and waits for its result.
func (b *browser) call(method string, params map[string]any, into any) {
	b.t.Helper()
	b.sent++
	request := map[string]any{"id": b.sent, "method": method}
	if params != nil {
		request["params"] = params
	}
	if b.session != "" {
		request["sessionId"] = b.session
	}
	text, err := json.Marshal(request)
	require.NoError(b.t, err)
	_, err = b.to.Write(append(text, 0))
	require.NoError(b.t, err)
	for m := range b.in {
		switch {
		case m.Method == "Log.entryAdded" || m.Method == "Runtime.exceptionThrown":
			b.said = append(b.said, string(m.Params))
		case m.ID == b.sent:
			require.Empty(b.t, string(m.Error), method)
			if into != nil {
				require.NoError(b.t, json.Unmarshal(m.Result, into))
			}
			return
		}
	}
	require.FailNow(b.t, "the browser has ended", method)
}

// open goes to a page on a screen of that width.
func (b *browser) open(url string, width int) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false}, nil)
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	b.until(`document.readyState === "complete" && location.href === ` + fmt.Sprintf("%q", url))
}

// eval evaluates an expression on the page.
func (b *browser) eval(expression string) any {
	b.t.Helper()
	var answer struct{ Result struct{ Value any } }
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &answer)
	return answer.Result.Value
}

// until waits for an expression to hold.
func (b *browser) until(expression string) {
	b.t.Helper()
	for range 1200 {
		if b.eval(expression) == true {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	require.FailNow(b.t, "it never held", expression)
}

// Pages fit a wide and a narrow screen, keep to their own policy, show names as text and
// follow what is measured; without scripts they show the same.
func TestInABrowser(t *testing.T) {
	b := openBrowser(t)
	s := new(source)
	o := s.options()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server := httptest.NewServer(New(ctx, o))
	defer server.Close()
	for _, page := range []string{"/console/", "/console/services/traffic"} {
		for _, width := range []int{1280, 400} {
			b.open(server.URL+page, width)
			assert.Equal(t, true, b.eval("document.documentElement.scrollWidth <= innerWidth"), "%s scrolls sideways at %d pixels", page, width)
			assert.Equal(t, true, b.eval(`document.querySelector("main").innerText.includes("97 %")`), page)
			assert.Nil(t, b.eval(`document.querySelector("main b")`), "a name became an element")
		}
	}
	assert.Equal(t, true, b.eval(`document.querySelector("main").innerText.includes("<b>colour")`))
	b.open(server.URL+"/console/services/traffic", 1280)
	assert.Equal(t, 0.0, b.eval(`[...document.querySelectorAll(".scroll")].filter((e) => e.scrollWidth > e.clientWidth).length`), "tables fit a wide screen")

	b.eval(`document.querySelector("main").innerHTML = ""`)
	b.until(`document.querySelector("main").innerText.includes("97 %")`)
	cancel()
	b.until(`document.body.classList.contains("stale") && getComputedStyle(document.querySelector(".lost")).display !== "none"`)
	for _, said := range b.said {
		assert.Contains(t, said, "ERR_", "nothing but that the connection is gone")
	}
}

// The page of a stream fits a wide and a narrow screen, and its picture is loaded and follows.
func TestTheLastFrameInABrowser(t *testing.T) {
	b := openBrowser(t)
	f := filmedConsole{allowed: true, guarded: true, frame: overlay.Frame{At: time.Now(), Tensors: map[string]wire.Tensor{"f": wire.Zeros(wire.Uint8, []int64{720, 1280, 3})}}}
	ctx, cancel := context.WithCancel(t.Context())
	c := New(ctx, f.options())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+secret)
		c.ServeHTTP(w, r)
	}))
	defer server.Close()
	defer cancel() // what is live ends
	for _, width := range []int{1280, 400} {
		b.open(server.URL+"/console/streams/traffic/0a", width)
		b.until(`document.querySelector("img").naturalWidth === 960`)
		assert.Equal(t, true, b.eval("document.documentElement.scrollWidth <= innerWidth"), "it scrolls sideways at %d pixels", width)
		assert.Equal(t, true, b.eval(`document.querySelector("main").innerText.includes("<camera>")`))
	}
	assert.Empty(t, b.said, "the policy allows the picture")
}

func TestInABrowserWithoutScripts(t *testing.T) {
	b := openBrowser(t)
	server := httptest.NewServer(New(t.Context(), new(source).options()))
	defer server.Close()
	b.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	b.open(server.URL+"/console/services/traffic", 1280)
	assert.Equal(t, true, b.eval(`document.querySelector("main").innerText.includes("2 × batch 4")`))
	assert.Equal(t, true, b.eval(`document.querySelector("noscript meta[http-equiv=refresh]") !== null || document.querySelector("meta[http-equiv=refresh]") !== null`), "it reloads by itself")
	assert.Empty(t, b.said)
}
