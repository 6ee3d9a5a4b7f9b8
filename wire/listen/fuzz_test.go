package listen

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"

	"github.com/harpagon/harpagon/internal/testkit"
)

// FuzzRefuseCall has a caller beyond the most connections send anything: it receives a few
// hundred bytes at most.
func FuzzRefuseCall(f *testing.F) {
	begins := func(write func(*http2.Framer)) []byte {
		b := bytes.NewBufferString(http2.ClientPreface)
		write(http2.NewFramer(b, nil))
		return b.Bytes()
	}
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add(begins(func(to *http2.Framer) { _ = to.WriteSettings(); _ = to.WriteSettings() }))
	f.Add(begins(func(to *http2.Framer) {
		_ = to.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1})
		_ = to.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}, EndHeaders: true})
	}))
	f.Add(begins(func(to *http2.Framer) { _ = to.WriteRawFrame(http2.FrameHeaders, 0xff, 1, []byte{9}) }))
	f.Add(begins(func(to *http2.Framer) { _ = to.WriteRawFrame(http2.FrameData, 0, 1, make([]byte, 17<<10)) }))
	f.Fuzz(func(t *testing.T, says []byte) {
		defer testkit.WatchStalls(t, len(says))()
		var told bytes.Buffer
		refuseCall(struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(says), &told})
		settings := len(says) / 9 // each is acknowledged
		require.LessOrEqual(t, told.Len(), 1024+9*settings)
	})
}
