package content

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/secure"
)

func write(t *testing.T, path, text string) {
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func text(t *testing.T, path string) string {
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

// pinned is a document of one module, pinned.
func pinned(t *testing.T, p Pinning, m pipelines.Module) pipelines.Module {
	doc := pipelines.Document{Pipelines: []pipelines.Pipeline{{Modules: []pipelines.Module{m}}}}
	require.NoError(t, p.Pin(t.Context(), &doc))
	return doc.Pipelines[0].Modules[0]
}

// withExternal is the least of an ONNX file with a tensor in another file.
func withExternal(location string) string {
	message := func(num protowire.Number, b []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), b)
	}
	entry := append(message(1, []byte("location")), message(2, []byte(location))...)
	return string(message(7, message(5, message(13, entry))))
}

func TestAFileReplacedInPlaceStaysWhatWasApplied(t *testing.T) {
	model := filepath.Join(t.TempDir(), "m.onnx")
	write(t, model, "the first")
	store := Folder(t.TempDir())
	m := pinned(t, Pinning{Store: store}, pipelines.Module{Name: "m", Model: model})
	write(t, model, "the second")
	for range 2 { // from the store, then from the cache
		c := &Cache{Dir: t.TempDir(), Stores: []Store{store}}
		placed, release, err := c.Place(t.Context(), m)
		require.NoError(t, err)
		require.Equal(t, "the first", text(t, placed.Model))
		require.NotEqual(t, model, placed.Model)
		release()
	}
	again := pinned(t, Pinning{Store: store}, pipelines.Module{Name: "m", Model: model})
	require.NotEqual(t, m.Content, again.Content)
	first, err := Digest(m)
	require.NoError(t, err)
	second, err := Digest(again)
	require.NoError(t, err)
	require.NotEqual(t, first, second, "profiles are measured again")
	unpinned, err := Digest(pipelines.Module{Name: "m", Model: model})
	require.NoError(t, err)
	require.Equal(t, second, unpinned, "a plan made before finds what is measured later")
}

func TestWithoutAStoreTheFolderMustStillHaveIt(t *testing.T) {
	model := filepath.Join(t.TempDir(), "m.onnx")
	write(t, model, "the first")
	m := pinned(t, Pinning{}, pipelines.Module{Name: "m", Model: model})
	c := &Cache{Dir: t.TempDir()}
	placed, release, err := c.Place(t.Context(), m)
	require.NoError(t, err)
	release()
	write(t, model, "the second")
	_, release, err = c.Place(t.Context(), m)
	require.NoError(t, err, "the cache has it")
	release()
	require.Equal(t, "the first", text(t, placed.Model))

	_, _, err = (&Cache{Dir: t.TempDir()}).Place(t.Context(), m)
	var missing *missingError
	require.ErrorAs(t, err, &missing)
	require.ErrorContains(t, err, "has other content")
	require.ErrorContains(t, err, "apply the declaration again")
	require.NotErrorIs(t, err, wire.ErrUnavailable)
	require.NoError(t, os.Remove(model))
	_, _, err = (&Cache{Dir: t.TempDir()}).Place(t.Context(), m)
	require.ErrorAs(t, err, &missing)
	require.ErrorContains(t, err, "no such file")
}

func TestFilesLieBesideEachOther(t *testing.T) {
	from := t.TempDir()
	at := func(name string) string { return filepath.Join(from, name) }
	write(t, at("models/m.onnx"), withExternal("weights/m.bin"))
	write(t, at("models/weights/m.bin"), "weights")
	write(t, at("serve/main.py"), "import more")
	write(t, at("serve/more.py"), "more")
	write(t, at("letters.txt"), "abc")
	write(t, at("model/a/b"), "in a folder")
	c := &Cache{Dir: t.TempDir()}
	place := func(m pipelines.Module) pipelines.Module {
		placed, release, err := c.Place(t.Context(), pinned(t, Pinning{}, m))
		require.NoError(t, err)
		t.Cleanup(release)
		return placed
	}
	m := place(pipelines.Module{Name: "m", Model: at("models/m.onnx")})
	require.Equal(t, "weights", text(t, filepath.Join(filepath.Dir(m.Model), "weights/m.bin")))

	m = place(pipelines.Module{Name: "m", Command: []string{"/bin/sh", at("serve/main.py"), "-x"}, Files: []string{at("serve/more.py")}, Model: at("model")})
	require.Equal(t, "/bin/sh", m.Command[0])
	require.Equal(t, "-x", m.Command[2])
	require.Equal(t, "import more", text(t, m.Command[1]))
	require.Equal(t, "more", text(t, filepath.Join(filepath.Dir(m.Command[1]), "more.py")))
	require.Equal(t, "in a folder", text(t, filepath.Join(m.Model, "a/b")))

	m = place(pipelines.Module{Name: "m", Function: "ctc_text", Parameters: map[string]any{"dictionary_file": at("letters.txt"), "space": 0.5}})
	require.Equal(t, "abc", text(t, m.Parameters["dictionary_file"].(string)))
	require.Equal(t, 0.5, m.Parameters["space"])

	write(t, at("models/out.onnx"), withExternal("../../secret"))
	doc := pipelines.Document{Pipelines: []pipelines.Pipeline{{Modules: []pipelines.Module{{Name: "m", Model: at("models/out.onnx")}}}}}
	require.ErrorContains(t, Pinning{}.Pin(t.Context(), &doc), "not in its own folder")
}

func TestTheSameFilesElsewhereAreTheSame(t *testing.T) {
	module := func(folder string) pipelines.Module {
		write(t, filepath.Join(folder, "serve.py"), "serve")
		write(t, filepath.Join(folder, "letters.txt"), "abc")
		return pipelines.Module{Name: "m", Command: []string{"python3", filepath.Join(folder, "serve.py")}}
	}
	one, err := Digest(module(t.TempDir()))
	require.NoError(t, err)
	other := module(t.TempDir())
	two, err := Digest(other)
	require.NoError(t, err)
	require.Equal(t, one, two)
	write(t, other.Command[1], "serve else")
	two, err = Digest(other)
	require.NoError(t, err)
	require.NotEqual(t, one, two)
}

func TestAStoreServedOverHTTP(t *testing.T) {
	model := filepath.Join(t.TempDir(), "m.onnx")
	write(t, model, "the model")
	folder := Folder(t.TempDir())
	server := httptest.NewServer(Handler(folder, 0, secure.Credentials{Token: "secret"}.Guard()))
	defer server.Close()
	store, err := OpenStore(server.URL, secure.Credentials{Token: "secret"})
	require.NoError(t, err)
	var sent []string
	p := Pinning{Store: store, Progress: func(s string) { sent = append(sent, s) }}
	m := pinned(t, p, pipelines.Module{Name: "m", Model: model})
	pinned(t, p, pipelines.Module{Name: "m", Model: model})
	require.Len(t, sent, 1, "what the store has is not sent again")
	require.NoError(t, os.Remove(model))
	placed, release, err := (&Cache{Dir: t.TempDir(), Stores: []Store{store}}).Place(t.Context(), m)
	require.NoError(t, err)
	defer release()
	require.Equal(t, "the model", text(t, placed.Model))

	wrong, err := OpenStore(server.URL, secure.Credentials{Token: "wrong"})
	require.NoError(t, err)
	_, _, err = (&Cache{Dir: t.TempDir(), Stores: []Store{wrong}}).Place(t.Context(), m)
	require.ErrorContains(t, err, "requires a token")

	server.Close()
	_, _, err = (&Cache{Dir: t.TempDir(), Stores: []Store{store}}).Place(t.Context(), m)
	require.ErrorIs(t, err, wire.ErrUnavailable, "it may be back")
	require.ErrorContains(t, err, "does not answer")
}

func TestAStoreThatLies(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("else")) }))
	defer server.Close()
	store, err := OpenStore(server.URL, secure.Credentials{Token: ""})
	require.NoError(t, err)
	model := filepath.Join(t.TempDir(), "m.onnx")
	write(t, model, "what was applied")
	m := pinned(t, Pinning{}, pipelines.Module{Name: "m", Model: model})
	require.NoError(t, os.Remove(model))
	dir := t.TempDir()
	_, _, err = (&Cache{Dir: dir, Stores: []Store{store}}).Place(t.Context(), m)
	require.ErrorContains(t, err, "has other content")
	entries, _ := os.ReadDir(filepath.Join(dir, "sha256"))
	require.Empty(t, entries, "nothing of it is kept")
}

func TestHandlerRefuses(t *testing.T) {
	server := httptest.NewServer(Handler(Folder(t.TempDir()), 0, secure.Guard{}))
	defer server.Close()
	digest := strings.Repeat("0", 64)
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/sha256/" + digest, 404},
		{"GET", "/sha256/zz", 400},
		{"GET", "/sha256/..%2Fsecret", 400},
		{"GET", "/", 404},
		{"PUT", "/sha256/" + digest, 422},
		{"DELETE", "/sha256/" + digest, 405},
	} {
		q, err := http.NewRequest(c.method, server.URL+c.path, strings.NewReader("x"))
		require.NoError(t, err)
		a, err := http.DefaultClient.Do(q)
		require.NoError(t, err)
		require.Equal(t, c.status, a.StatusCode, c.path)
		_ = a.Body.Close()
	}
}

func TestAStoreTakesNoMoreThanItMay(t *testing.T) {
	folder := Folder(t.TempDir())
	server := httptest.NewServer(Handler(folder, 10, secure.Guard{}))
	defer server.Close()
	put := func(content string, body io.Reader) int {
		q, err := http.NewRequest(http.MethodPut, server.URL+"/sha256/"+strings.TrimPrefix(digestOfText(content), "sha256:"), body)
		require.NoError(t, err)
		a, err := http.DefaultClient.Do(q)
		require.NoError(t, err)
		require.NoError(t, a.Body.Close())
		return a.StatusCode
	}
	require.Equal(t, 201, put("12345678", strings.NewReader("12345678")))
	require.Equal(t, 507, put("abc", strings.NewReader("abc")))
	require.Equal(t, 201, put("ab", strings.NewReader("ab")))
	require.Equal(t, 201, put("ab", strings.NewReader("ab")), "what is there needs no room")
	require.Equal(t, 411, put("c", io.MultiReader(strings.NewReader("c"))), "the size is not announced")

	endless := io.MultiReader(strings.NewReader("x"), zeros{})
	var mismatch *mismatchError
	require.ErrorAs(t, folder.Put(t.Context(), pipelines.File{Digest: digestOfText("x"), Size: 1}, endless), &mismatch)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func digestOfText(s string) string {
	digest, _, _ := Sum(strings.NewReader(s))
	return digest
}

func TestOnlyRegularFilesArePinned(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "m.onnx")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	for _, m := range []pipelines.Module{
		{Name: "m", Model: pipe}, {Name: "m", Model: "/dev/zero"}, {Name: "m", Command: []string{"serve"}, Files: []string{"/dev/zero"}},
		{Name: "m", Function: "ctc_text", Parameters: map[string]any{"dictionary_file": pipe}},
	} {
		doc := pipelines.Document{Pipelines: []pipelines.Pipeline{{Modules: []pipelines.Module{m}}}}
		require.ErrorContains(t, Pinning{}.Pin(t.Context(), &doc), "is no regular file")
	}
	huge := filepath.Join(t.TempDir(), "m.bin")
	f, err := os.Create(huge)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(maxFile+1))
	require.NoError(t, f.Close())
	_, err = Digest(pipelines.Module{Name: "m", Command: []string{"serve"}, Files: []string{huge}})
	require.ErrorContains(t, err, "more than 100 GiB")
}

func TestNoTokenInTheClear(t *testing.T) {
	_, err := OpenStore("http://control:8092", secure.Credentials{Token: "secret"})
	require.ErrorContains(t, err, "without TLS")
	for _, good := range []string{"http://127.0.0.1:8092", "https://control:8092"} {
		_, err = OpenStore(good, secure.Credentials{Token: "secret"})
		require.NoError(t, err)
	}
	for _, bad := range []string{"", "ftp://x", "http://me:pass@127.0.0.1:1"} {
		_, err = OpenStore(bad, secure.Credentials{Token: ""})
		require.Error(t, err, bad)
	}
}

func TestEvictionKeepsWhatIsInUse(t *testing.T) {
	folder := t.TempDir()
	store := Folder(t.TempDir())
	module := func(name string) pipelines.Module {
		path := filepath.Join(folder, name)
		write(t, path, strings.Repeat(name[:1], 1000))
		return pinned(t, Pinning{Store: store}, pipelines.Module{Name: name, Model: path})
	}
	a, b, d, e := module("a.onnx"), module("b.onnx"), module("d.onnx"), module("e.onnx")
	c := &Cache{Dir: t.TempDir(), Stores: []Store{store}, Limit: 2500}
	inUse, releaseA, err := c.Place(t.Context(), a)
	require.NoError(t, err)
	_, releaseB, err := c.Place(t.Context(), b)
	require.NoError(t, err)
	_, _, err = c.Place(t.Context(), d)
	var full *fullError
	require.ErrorAs(t, err, &full)
	require.ErrorContains(t, err, "--cache-size")
	require.Equal(t, int64(2000), full.Held)
	releaseB()
	_, releaseD, err := c.Place(t.Context(), d)
	require.NoError(t, err, "b goes")
	releaseD()
	_, _, err = c.Place(t.Context(), e)
	require.NoError(t, err, "d goes")
	require.Equal(t, strings.Repeat("a", 1000), text(t, inUse.Model))
	var size int64
	for _, info := range infos(filepath.Join(c.Dir, "sha256")) {
		size += info.Size()
	}
	require.LessOrEqual(t, size, int64(2500))
	releaseA()
}

func TestADamagedFileIsFetchedAgain(t *testing.T) {
	model := filepath.Join(t.TempDir(), "m.onnx")
	write(t, model, "right")
	store := Folder(t.TempDir())
	m := pinned(t, Pinning{Store: store}, pipelines.Module{Name: "m", Model: model})
	dir := t.TempDir()
	placed, release, err := (&Cache{Dir: dir, Stores: []Store{store}}).Place(t.Context(), m)
	require.NoError(t, err)
	release()
	require.NoError(t, os.Chmod(placed.Model, 0o600))
	write(t, placed.Model, "wrong")
	placed, release, err = (&Cache{Dir: dir, Stores: []Store{store}}).Place(t.Context(), m)
	require.NoError(t, err)
	defer release()
	require.Equal(t, "right", text(t, placed.Model))
}

func TestModelsAtAddresses(t *testing.T) {
	files := map[string]string{"/models/m.onnx": withExternal("m.bin"), "/models/m.bin": "weights"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text, ok := files[r.URL.Path]; ok {
			_, _ = w.Write([]byte(text))
			return
		}
		http.NotFound(w, r)
	}))
	defer server.Close()
	store := Folder(t.TempDir())
	digest, _, err := Sum(strings.NewReader(files["/models/m.onnx"]))
	require.NoError(t, err)
	for _, address := range []string{server.URL + "/models/m.onnx", server.URL + "/models/m.onnx#" + digest} {
		require.True(t, pipelines.IsFetched(address))
		m := pinned(t, Pinning{Store: store}, pipelines.Module{Name: "m", Model: address})
		require.Len(t, m.Content, 2)
		placed, release, err := (&Cache{Dir: t.TempDir(), Stores: []Store{store}}).Place(t.Context(), m)
		require.NoError(t, err)
		require.Equal(t, files["/models/m.onnx"], text(t, placed.Model))
		require.Equal(t, "weights", text(t, filepath.Join(filepath.Dir(placed.Model), "m.bin")))
		release()
	}
	pin := func(p Pinning, model string) error {
		doc := pipelines.Document{Pipelines: []pipelines.Pipeline{{Modules: []pipelines.Module{{Name: "m", Model: model}}}}}
		return p.Pin(t.Context(), &doc)
	}
	other := "sha256:" + strings.Repeat("0", 64)
	require.ErrorAs(t, pin(Pinning{Store: store}, server.URL+"/models/m.onnx#"+other), new(*mismatchError))
	require.ErrorContains(t, pin(Pinning{Store: store}, server.URL+"/none.onnx"), "404")
	require.ErrorContains(t, pin(Pinning{}, server.URL+"/models/m.onnx"), "--store")
	require.ErrorContains(t, pin(Pinning{Store: store}, "s3://bucket/m"), "--fetch 's3=COMMAND'")

	file := filepath.Join(t.TempDir(), "local")
	write(t, file, "by a command")
	commands, err := ParseCommands([]string{"s3=cp " + file + " {file}"})
	require.NoError(t, err)
	m := pinned(t, Pinning{Store: store, Fetch: Fetcher{Commands: commands}}, pipelines.Module{Name: "m", Model: "s3://bucket/m"})
	placed, release, err := (&Cache{Dir: t.TempDir(), Stores: []Store{store}}).Place(t.Context(), m)
	require.NoError(t, err)
	defer release()
	require.Equal(t, "by a command", text(t, placed.Model))
	require.ErrorContains(t, pin(Pinning{Store: store, Fetch: Fetcher{Commands: map[string]string{"s3": "false {file}"}}}, "s3://bucket/m"), "exit status 1")
	for _, bad := range []string{"s3", "s3=cp x", "ftp=cp {url} {file}"} {
		_, err := ParseCommands([]string{bad})
		require.Error(t, err, bad)
	}
}

func TestADiskThatTakesNothing(t *testing.T) {
	model := filepath.Join(t.TempDir(), "m.onnx")
	write(t, model, strings.Repeat("m", 10_000))
	m := pinned(t, Pinning{}, pipelines.Module{Name: "m", Model: model})
	for _, fault := range testkit.DiskFaults() {
		for what, before := range map[string]func(*testing.T, *Cache){
			"nothing": func(*testing.T, *Cache) {},
			"the file, in no folder": func(t *testing.T, c *Cache) {
				_, release, err := c.Place(t.Context(), m)
				require.NoError(t, err)
				release()
				require.NoError(t, os.RemoveAll(filepath.Join(c.Dir, "trees")))
			},
		} {
			t.Run(fault.Name+"/with "+what, func(t *testing.T) {
				d := testkit.NewDisk(t)
				c := &Cache{Dir: d.Folder}
				before(t, c)
				require.NoError(t, fault.Begin(d))
				_, _, err := c.Place(t.Context(), m)
				if full := new(fullError); errors.As(err, &full) {
					require.ErrorContains(t, err, "free some")
				} else if err != nil {
					require.ErrorContains(t, err, "read-only")
				} else {
					require.Equal(t, "full", fault.Name)
					require.NotEqual(t, "nothing", what, "names take no room there")
				}
				require.NoError(t, fault.End(d))
				placed, release, err := c.Place(t.Context(), m)
				require.NoError(t, err, "it is placed as soon as there is room")
				require.Equal(t, text(t, model), text(t, placed.Model))
				release()
				left, err := filepath.Glob(filepath.Join(d.Folder, "*", ".part-*"))
				require.NoError(t, err)
				require.Empty(t, left, "nothing half written is left")
			})
		}
	}
}

func TestPlacingEndsWithItsContext(t *testing.T) {
	model := filepath.Join(t.TempDir(), "m.onnx")
	write(t, model, "right")
	m := pinned(t, Pinning{}, pipelines.Module{Name: "m", Model: model})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := (&Cache{Dir: t.TempDir()}).Place(ctx, m)
	require.True(t, errors.Is(err, context.Canceled), err)
}

func TestBadContentIsNotPlaced(t *testing.T) {
	good := "sha256:" + strings.Repeat("0", 64)
	for _, f := range []pipelines.File{{Path: "/a", Digest: "sha256:../../x"}, {Path: "/a/..", Digest: good}, {Path: "", Digest: good}} {
		_, _, err := (&Cache{Dir: t.TempDir()}).Place(t.Context(), pipelines.Module{Name: "m", Content: []pipelines.File{f}})
		require.ErrorContains(t, err, "cannot be placed", f.Path)
	}
}
