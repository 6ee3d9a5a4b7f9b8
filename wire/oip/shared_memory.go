package oip

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"syscall"

	"github.com/harpagon/harpagon/wire"
)

// Extensions that servers name. The first two are published, the others ours: a region may be registered with
// its file, which goes over the Unix socket, in place of a name, and the next request may be sent while
// one is computed, which does not compute them side by side.
const (
	ExtensionBinary       = "binary_tensor_data"
	ExtensionSharedMemory = "system_shared_memory"
	ExtensionMemoryFile   = "harpagon_memory_file"
	ExtensionAhead        = "harpagon_ahead"
)

// Region is memory that a server of this machine is to see.
type Region struct {
	Name string
	Key  string   // by which it is opened; empty where the file goes along
	File *os.File // for servers with ExtensionMemoryFile
	Size int
}

// Extensions are those that the server names.
func (c *Client) Extensions(ctx context.Context) ([]string, error) {
	err := c.extensions(ctx)
	return c.named, err
}

// Register registers a region.
func (c *Client) Register(ctx context.Context, r Region) error {
	body, err := json.Marshal(map[string]any{"key": r.Key, "offset": 0, "byte_size": r.Size})
	if err != nil {
		return err
	}
	client := c.http
	if r.File != nil {
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, "unix", c.options.Socket)
			if err != nil {
				return nil, err
			}
			return &fileConn{conn.(*net.UnixConn), r.File}, nil
		}
		client = &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	}
	_, _, err = c.doBy(ctx, client, http.MethodPost, regionPath(r.Name, "register"), body, -1)
	return err
}

// fileConn sends a file with the first bytes.
type fileConn struct {
	*net.UnixConn
	file *os.File
}

func (c *fileConn) Write(b []byte) (int, error) {
	if c.file == nil {
		return c.UnixConn.Write(b)
	}
	n, _, err := c.WriteMsgUnix(b, syscall.UnixRights(int(c.file.Fd())), nil)
	c.file = nil
	return n, err
}

// Unregister makes the server forget a region.
func (c *Client) Unregister(ctx context.Context, name string) error {
	_, _, err := c.doBy(ctx, c.http, http.MethodPost, regionPath(name, "unregister"), []byte("{}"), -1)
	return err
}

func regionPath(name, what string) string {
	return "/v2/systemsharedmemory/region/" + url.PathEscape(name) + "/" + what
}

// Place is where a tensor lies in a region. The zero value is nowhere: it travels.
type Place struct {
	Region string
	Offset int
	Data   []byte // the memory there
}

// Places are those of the tensors of a request, in its order: inputs whose data the request does not
// hold, and outputs, which get no more than there is room.
type Places struct{ Inputs, Outputs []Place }

func (p *Places) input(i int) *Place  { return placeAt(p.Inputs, i) }
func (p *Places) output(i int) *Place { return placeAt(p.Outputs, i) }

func placeAt(all []Place, i int) *Place {
	if i >= len(all) || all[i].Region == "" {
		return nil
	}
	return &all[i]
}

// InferPlaced is Infer for tensors that lie in registered regions. So do the data of outputs then
// that were given a place.
func (c *Client) InferPlaced(ctx context.Context, q *wire.InferRequest, version string, p Places) (*wire.InferResponse, error) {
	return c.infer(ctx, q, version, &p)
}

// append adds the parameters of a tensor that lies there.
func (p *Place) append(b []byte) []byte {
	b = appendText(append(b, `,"parameters":{"shared_memory_region":`...), p.Region)
	b = strconv.AppendInt(append(b, `,"shared_memory_offset":`...), int64(p.Offset), 10)
	b = strconv.AppendInt(append(b, `,"shared_memory_byte_size":`...), int64(len(p.Data)), 10)
	return append(b, '}')
}

// placed gives the data of an output that the server says lies in a region: where it was told to put it, as
// many bytes as its shape has.
func (p *Places) placed(q *wire.InferRequest, t *wire.NamedTensor, said *tensorParameters) ([]byte, error) {
	at := slices.Index(q.Outputs, t.Name)
	if at < 0 || p.output(at) == nil {
		return nil, invalid("it is said to lie in region %q, where it was not to be put", said.Region)
	}
	place, size := p.output(at), int64(wire.Size(t.Datatype))*int64(t.Len())
	switch {
	case said.Region != place.Region || said.Offset != nil && *said.Offset != int64(place.Offset):
		return nil, invalid("it is said to lie in region %q, and was to be put elsewhere", said.Region)
	case t.Datatype == wire.Bytes || size < 0 || size > int64(len(place.Data)):
		return nil, invalid("%s %v does not fit into the %d bytes of its place", t.Datatype, t.Shape, len(place.Data))
	case said.RegionSize != nil && *said.RegionSize < size:
		return nil, invalid("%s %v is said to have %d bytes", t.Datatype, t.Shape, *said.RegionSize)
	}
	return place.Data[:size:size], nil
}
