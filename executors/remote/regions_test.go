package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
)

// sharing is a fake on the same machine that opens shared memory by its name, and may do it wrong.
type sharing struct {
	*fake
	refuses bool // to register anything
	wrong   string

	mu      sync.Mutex
	regions map[string][]byte
	address string
	placed  int // requests whose input lay in a region
	sizes   []int
}

type sharedTensor struct {
	Name       string         `json:"name"`
	Datatype   string         `json:"datatype,omitempty"`
	Shape      []int64        `json:"shape,omitempty"`
	Parameters map[string]any `json:"parameters,omitempty"`
}

func (s *sharing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := strings.Split(r.URL.Path, "/")
	switch {
	case r.URL.Path == "/v2":
		_, _ = io.WriteString(w, `{"extensions":["binary_tensor_data","system_shared_memory"]}`)
	case len(path) == 6 && path[5] == "register":
		var said struct {
			Key  string `json:"key"`
			Size int    `json:"byte_size"`
		}
		_ = json.NewDecoder(r.Body).Decode(&said)
		if s.refuses || s.register(path[4], said.Key, said.Size) != nil {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":"there is no shared memory"}`)
		}
	case len(path) == 6 && path[5] == "unregister":
		if all := s.regions[path[4]]; all != nil {
			_ = unix.Munmap(all)
			delete(s.regions, path[4])
		}
	case strings.HasSuffix(r.URL.Path, "/infer"):
		body, _ := io.ReadAll(r.Body)
		header, _ := strconv.Atoi(r.Header.Get(oip.HeaderLength))
		if !bytes.Contains(body[:header], []byte("shared_memory_region")) {
			r.Body = io.NopCloser(bytes.NewReader(body))
			s.fake.ServeHTTP(w, r)
			return
		}
		s.infer(w, body[:header])
	default:
		s.fake.ServeHTTP(w, r)
	}
}

func (s *sharing) register(name, key string, size int) error {
	file, err := os.OpenFile("/dev/shm"+key, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	s.sizes = append(s.sizes, size)
	s.regions[name], err = unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return err
}

// infer doubles x into y, both of which lie in a region.
func (s *sharing) infer(w http.ResponseWriter, head []byte) {
	s.placed++
	var q struct{ Inputs, Outputs []sharedTensor }
	_ = json.Unmarshal(head, &q)
	at := func(t *sharedTensor) []byte {
		p := t.Parameters
		from, size := int(p["shared_memory_offset"].(float64)), int(p["shared_memory_byte_size"].(float64))
		region, known := s.regions[p["shared_memory_region"].(string)]
		if !known {
			return nil
		}
		return region[from : from+size]
	}
	x, y := &q.Inputs[0], &q.Outputs[0]
	from, to := at(x), at(y)
	if from == nil {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":"there is no such region"}`)
		return
	}
	values := wire.Tensor{Datatype: wire.FP32, Shape: x.Shape, Data: bytes.Clone(from)}
	v, _ := values.Float32s()
	for i := range v {
		v[i] *= 2
	}
	copy(to, wire.FromFloat32(v, x.Shape...).Data)
	y.Datatype, y.Shape = wire.FP32, x.Shape
	switch s.wrong {
	case "region":
		y.Parameters["shared_memory_region"] = "another"
	case "place":
		y.Parameters["shared_memory_offset"] = 0
	case "beyond":
		y.Shape = []int64{x.Shape[0], 1 << 20}
	case "overflow":
		y.Shape = []int64{1 << 40, 1 << 40}
	case "short":
		y.Parameters["shared_memory_byte_size"] = 4
	case "shape":
		y.Shape = []int64{x.Shape[0], 1}
	case "datatype":
		y.Datatype = "FP64"
	case "unasked":
		y.Name = "z"
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"model_name": "m", "outputs": q.Outputs})
}

func shared(t *testing.T, s *sharing) *Instance {
	if _, err := os.Stat("/dev/shm"); err != nil {
		t.Skip("there is no /dev/shm")
	}
	s.fake, s.regions = stacking(), map[string][]byte{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{Handler: s}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	s.address = l.Addr().String()
	return load(t, "http://"+l.Addr().String()+"/m", quick, 1, 4)
}

func requireDoubled(t *testing.T, in *Instance, values ...float32) {
	answers, err := in.Run(t.Context(), rows(values...))
	require.NoError(t, err)
	for i, a := range answers {
		v, err := a[0].Float32s()
		require.NoError(t, err)
		require.Equal(t, []float32{2 * values[i], -2 * values[i]}, v)
	}
}

func TestAServerOfThisMachineSharesMemory(t *testing.T) {
	s := new(sharing)
	in := shared(t, s)
	for n := range 20 {
		requireDoubled(t, in, 1, float32(n), 3)
	}
	left, err := filepath.Glob("/dev/shm/" + in.regions.name + "*")
	require.NoError(t, err)
	require.Empty(t, left, "the name goes as soon as the server has opened it")
	require.Greater(t, s.placed, 20)
	require.Len(t, s.sizes, 1, "registered once")
	require.Len(t, s.regions, 1)
	require.NoError(t, in.Close())
	require.Empty(t, s.regions)
}

// TestAServerThatSharesNoMemoryGetsBytes is of servers that refuse to, or have forgotten: they were started again.
func TestAServerThatSharesNoMemoryGetsBytes(t *testing.T) {
	s := &sharing{refuses: true}
	in := shared(t, s)
	requireDoubled(t, in, 1, 2, 3)
	require.Zero(t, s.placed)

	s = new(sharing)
	in = shared(t, s)
	requireDoubled(t, in, 1, 2, 3)
	s.mu.Lock()
	clear(s.regions)
	s.mu.Unlock()
	before := s.placed
	requireDoubled(t, in, 4, 5)
	require.Equal(t, before+1, s.placed, "it was tried")
	requireDoubled(t, in, 6, 7)
	require.Equal(t, before+2, s.placed)
	require.Len(t, s.regions, 1, "registered again")
}

// victim names the server of an executor that is to be killed.
const victim = "REMOTE_TEST_VICTIM"

func TestMain(m *testing.M) {
	if address := os.Getenv(victim); address != "" {
		for { // regions are registered all the time
			in, err := New(quick).Load(context.Background(), model(address, 1, 4))
			if err != nil {
				os.Exit(1)
			}
			_ = in.Close()
		}
	}
	os.Exit(m.Run())
}

// TestNamesOfWhoIsKilledGo kills executors that make shared memory with names, at any moment: what one leaves
// behind goes when the next registers any. HARPAGON_KILLS is how often.
func TestNamesOfWhoIsKilledGo(t *testing.T) {
	kills := 5
	if n, err := strconv.Atoi(os.Getenv("HARPAGON_KILLS")); err == nil {
		kills = n
	}
	s := new(sharing)
	in := shared(t, s)
	left := 0
	for range kills {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), victim+"=http://"+s.address+"/m")
		require.NoError(t, c.Start())
		time.Sleep(time.Duration(20_000+rand.IntN(30_000)) * time.Microsecond)
		require.NoError(t, c.Process.Kill())
		_ = c.Wait()
		names, err := filepath.Glob("/dev/shm/harpagon-*")
		require.NoError(t, err)
		left += len(names)
		in.regions.drop(in.regions.take(t.Context(), 1))
		requireDoubled(t, in, 1, 2)
		require.Eventually(t, func() bool {
			names, err := filepath.Glob("/dev/shm/harpagon-*")
			return err == nil && len(names) == 0
		}, 10*time.Second, 5*time.Millisecond)
	}
	t.Logf("%d of %d kills left a name, which the next registration took away", left, kills)
}

func TestAnswersThatLieElsewhere(t *testing.T) {
	for wrong, want := range map[string]string{
		"region":   `it is said to lie in region "another", and was to be put elsewhere`,
		"place":    "and was to be put elsewhere",
		"beyond":   "FP32 [2 1048576] does not fit into the 16 bytes of its place",
		"overflow": "FP32 [1099511627776 1099511627776]",
		"short":    "is said to have 4 bytes",
		"shape":    "answered output \"y\" as FP32 [2 1] where its metadata name FP32 [2 2]",
		"datatype": "FP64 [2 2] does not fit into the 16 bytes",
		"unasked":  "where it was not to be put",
	} {
		s := new(sharing)
		in := shared(t, s)
		s.wrong = wrong
		_, err := in.Run(t.Context(), rows(1, 2))
		require.ErrorIs(t, err, wire.ErrInternal, wrong)
		require.ErrorContains(t, err, want, wrong)
		s.wrong = ""
		requireDoubled(t, in, 8, 9)
	}
}
