package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/sdk"
)

// What of a video is kept in memory: a file's frames up to so many bytes.
const mostVideo = 256 << 20

// nextFrame is how long the next frame of a source may take to come.
const nextFrame = 15 * time.Second

// video is the frames of a source.
type video struct {
	input  string
	kept   []sdk.Tensor // of a file
	latest atomic.Pointer[sdk.Tensor]
	came   atomic.Int64 // when the latest did, in nanoseconds of Unix time
	stop   context.CancelFunc
	ended  chan struct{} // closed when a live source has
}

// openVideo has ffmpeg decode a source to the shape of an input, at so many frames a second: all
// frames of a file, or the latest one of an address, for as long as it is open. The first one of an
// address may take for patience.
func openVideo(ctx context.Context, source string, inputs []pipelines.Port, rate float64, patience time.Duration) (*video, error) {
	program, err := exec.LookPath("ffmpeg")
	if err != nil {
		return nil, errors.New("ffmpeg is not on this machine's PATH; install it, or send frames by --input")
	}
	live := strings.Contains(source, "://")
	if _, err := os.Stat(source); !live && err != nil {
		return nil, err
	}
	if live {
		rate = 0 // each stream takes the latest frame when it sends one
	}
	next, arguments, in, err := decoding(inputs, rate)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	c := exec.CommandContext(ctx, program, append([]string{"-nostdin", "-loglevel", "error", "-i", source}, arguments...)...)
	var said bytes.Buffer
	c.Stderr, c.WaitDelay = &said, 2*time.Second
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		stop()
		return nil, err
	}
	v := &video{input: in, stop: stop, ended: make(chan struct{})}
	read := next(bufio.NewReaderSize(out, 1<<20))
	if live {
		first := make(chan struct{})
		go v.follow(c, read, first)
		select {
		case <-first:
			return v, nil
		case <-v.ended:
			stop()
			return nil, failed(&said, errors.New("it has no frame"))
		case <-time.After(patience):
			stop()
			<-v.ended
			return nil, fmt.Errorf("no frame has come in %v; does anybody answer there?", patience)
		}
	}
	close(v.ended)
	err = v.keep(read)
	stop()
	if waited := c.Wait(); len(v.kept) == 0 {
		return nil, failed(&said, errors.Join(err, waited))
	}
	return v, nil
}

// failed is the error with which ffmpeg has given nothing, by its own output.
func failed(said *bytes.Buffer, err error) error {
	if text := strings.TrimSpace(said.String()); text != "" {
		return fmt.Errorf("ffmpeg: %s", text)
	}
	return cmp.Or(err, errors.New("it has no frame"))
}

// decoding returns the arguments of ffmpeg for the frames of an input, at the source's own
// rate for 0, and a function that reads one after the other.
func decoding(inputs []pipelines.Port, rate float64) (next func(*bufio.Reader) func() (sdk.Tensor, error), arguments []string, input string, err error) {
	pace := "null" // as it comes
	if rate > 0 {
		pace = fmt.Sprintf("fps=%g", rate)
	}
	if i := slices.IndexFunc(inputs, func(p pipelines.Port) bool { return p.Datatype == "BYTES" }); i >= 0 {
		next = func(from *bufio.Reader) func() (sdk.Tensor, error) {
			parts := multipart.NewReader(from, "ffmpeg")
			return func() (sdk.Tensor, error) {
				part, err := parts.NextRawPart()
				if err != nil {
					return sdk.Tensor{}, err
				}
				picture, err := io.ReadAll(io.LimitReader(part, mostVideo))
				t := sdk.Strings([]string{string(picture)})
				if len(inputs[i].Shape) == 0 {
					t.Shape = []int64{}
				}
				return t, err
			}
		}
		return next, []string{"-vf", pace, "-q:v", "3", "-f", "mpjpeg", "pipe:1"}, inputs[i].Name, nil
	}
	in, height, width, planes, err := pictured(inputs)
	if err != nil {
		return nil, nil, "", err
	}
	next = func(from *bufio.Reader) func() (sdk.Tensor, error) {
		pixels := make([]byte, 3*height*width)
		return func() (sdk.Tensor, error) {
			if _, err := io.ReadFull(from, pixels); err != nil {
				return sdk.Tensor{}, err
			}
			return pictureOf(pixels, in.Datatype, height, width, planes), nil
		}
	}
	return next, []string{"-vf", fmt.Sprintf("%s,scale=%d:%d", pace, width, height), "-f", "rawvideo", "-pix_fmt", "rgb24", "pipe:1"}, in.Name, nil
}

// pictureOf is a frame as a tensor: elements of FP32 are from 0 to 1.
func pictureOf(pixels []byte, datatype string, height, width int, planes bool) sdk.Tensor {
	shape := []int64{int64(height), int64(width), 3}
	ordered := slices.Clone(pixels)
	if planes {
		shape = []int64{3, int64(height), int64(width)}
		for i := range height * width {
			for colour := range 3 {
				ordered[colour*height*width+i] = pixels[3*i+colour]
			}
		}
	}
	if datatype == "UINT8" {
		return sdk.Uint8(ordered, shape...)
	}
	floats := make([]float32, len(ordered))
	for i, x := range ordered {
		floats[i] = float32(x) / 255
	}
	return sdk.Float32(floats, shape...)
}

// keep reads the frames of a file.
func (v *video) keep(read func() (sdk.Tensor, error)) error {
	for size := 0; size < mostVideo; {
		t, err := read()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
		v.kept, size = append(v.kept, t), size+len(t.Data)
	}
	return nil
}

// follow keeps the latest frame until the source ends.
func (v *video) follow(c *exec.Cmd, read func() (sdk.Tensor, error), first chan struct{}) {
	defer close(v.ended)
	defer func() { _ = c.Wait() }() // its last frame goes on to be sent
	for n := 0; ; n++ {
		t, err := read()
		if err != nil {
			return
		}
		v.came.Store(time.Now().UnixNano())
		if v.latest.Store(&t); n == 0 {
			close(first)
		}
	}
}

// Fault is what is wrong with an address by now, of which streams go on to send the last frame; nil
// where frames come, and for a file.
func (v *video) Fault(patience time.Duration) error {
	if v.latest.Load() == nil {
		return nil
	}
	since := time.Since(time.Unix(0, v.came.Load())).Round(time.Millisecond)
	select {
	case <-v.ended:
		return fmt.Errorf("it has ended, and streams have sent its last frame for %v", since)
	default:
	}
	if since > patience {
		return fmt.Errorf("no frame has come for %v, and streams have sent the last one", since)
	}
	return nil
}

// apart is how many frames one stream is ahead of the one before in the same file.
const apart = 37

// frame is frame number n of a stream.
func (v *video) frame(stream, n int) sdk.Inputs {
	if t := v.latest.Load(); t != nil {
		return sdk.Inputs{v.input: *t}
	}
	return sdk.Inputs{v.input: v.kept[(stream*apart+n)%len(v.kept)]}
}

// Close ends ffmpeg.
func (v *video) Close() {
	v.stop()
	<-v.ended
}
