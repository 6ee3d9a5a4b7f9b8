package oip

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/wire"
)

// shared makes regions of a folder with a file of so many bytes, 0, 1, 2 and so on, that is registered as r.
func shared(t *testing.T, size int) (*Regions, *os.File) {
	folder := t.TempDir()
	all, err := newRegions(folder, "/c-")
	require.NoError(t, err)
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i)
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder, "c-1"), data, 0o600))
	require.NoError(t, all.Register("", RegionStatus{Name: "r", Key: "/c-1", Size: int64(size)}))
	file, err := os.OpenFile(filepath.Join(folder, "c-1"), os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	return all, file
}

func at(region string, offset, size int64) *placeParameters {
	return &placeParameters{Region: region, Offset: &offset, RegionSize: &size}
}

func TestRegionsThatCannotBeRegistered(t *testing.T) {
	for _, prefix := range []string{"", "/", "a/b", "..", "a\x00"} {
		_, err := NewRegions(prefix)
		require.ErrorContains(t, err, "does not begin names of shared memory", prefix)
	}
	all, _ := shared(t, 16)
	require.NoError(t, os.WriteFile(filepath.Join(all.folder, "other"), make([]byte, 16), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(all.folder, "harpagon-x"), make([]byte, 16), 0o600))
	require.NoError(t, os.Symlink(filepath.Join(all.folder, "other"), filepath.Join(all.folder, "c-link")))
	require.NoError(t, os.Mkdir(filepath.Join(all.folder, "c-folder"), 0o700))
	for _, c := range []struct {
		says string
		s    RegionStatus
	}{
		{"1 to 1024 bytes", RegionStatus{Key: "/c-1", Size: 1}},
		{"1 to 1024 bytes", RegionStatus{Name: strings.Repeat("r", 1025), Key: "/c-1", Size: 1}},
		{"may be /c-...", RegionStatus{Name: "a", Key: "/other", Size: 1}},
		{"may be /c-...", RegionStatus{Name: "a", Key: "", Size: 1}},
		{"may be /c-...", RegionStatus{Name: "a", Key: "/c-/../other", Size: 1}},
		{"may be /c-...", RegionStatus{Name: "a", Key: "//c-1", Size: 1}},
		{"no such file", RegionStatus{Name: "a", Key: "/c-none", Size: 1}},
		{"symbolic links", RegionStatus{Name: "a", Key: "/c-link", Size: 1}},
		{"is a directory", RegionStatus{Name: "a", Key: "/c-folder", Size: 1}},
		{"offset is -1", RegionStatus{Name: "a", Key: "/c-1", Offset: -1, Size: 1}},
		{"byte_size 0", RegionStatus{Name: "a", Key: "/c-1"}},
		{"has 16 bytes, fewer", RegionStatus{Name: "a", Key: "/c-1", Size: 17}},
		{"has 16 bytes, fewer", RegionStatus{Name: "a", Key: "/c-1", Offset: 17, Size: 1}},
		{"has 16 bytes, fewer", RegionStatus{Name: "a", Key: "/c-1", Offset: 1<<63 - 1, Size: 1<<63 - 1}},
		{"registered already", RegionStatus{Name: "r", Key: "/c-1", Size: 1}},
	} {
		err := all.Register("", c.s)
		require.ErrorContains(t, err, c.says)
		require.ErrorAs(t, err, new(*wire.Error))
	}
	all.prefix = "h"
	require.ErrorContains(t, all.Register("", RegionStatus{Name: "a", Key: "/harpagon-x", Size: 1}), "of engines")
	one, err := all.Status("", "")
	require.NoError(t, err)
	require.Equal(t, []RegionStatus{{Name: "r", Key: "/c-1", Size: 16}}, one)
}

func TestRegionsAreOfTheirCallers(t *testing.T) {
	all, _ := shared(t, 16)
	require.NoError(t, all.Register("alice", RegionStatus{Name: "r", Key: "/c-1", Offset: 4, Size: 8}))
	mine, err := all.Status("alice", "r")
	require.NoError(t, err)
	require.Equal(t, []RegionStatus{{Name: "r", Key: "/c-1", Offset: 4, Size: 8}}, mine)
	_, err = all.Status("bob", "r")
	require.ErrorContains(t, err, "no region")
	_, err = all.Of("bob").window(at("r", 0, 1))
	require.ErrorContains(t, err, "no region")
	require.ErrorContains(t, all.Unregister("bob", "r"), "no region")
	require.NoError(t, all.Unregister("bob", ""))
	require.NoError(t, all.Unregister("alice", ""))
	require.Len(t, all.all, 1)
	require.NoError(t, all.Unregister("", "r"))
	require.ErrorContains(t, all.Unregister("", "r"), "no region")
	for i := range maxRegions {
		require.NoError(t, all.Register(strconv.Itoa(i/mostOfOne), RegionStatus{Name: strconv.Itoa(i), Key: "/c-1", Size: 1}))
	}
	require.ErrorContains(t, all.Register("", RegionStatus{Name: "r", Key: "/c-1", Size: 1}), "which is the most")
	require.NoError(t, all.Unregister("0", ""))
	require.NoError(t, all.Register("", RegionStatus{Name: "r", Key: "/c-1", Size: 1}))
}

// One caller cannot take the places of all, and those of clients that are gone are free.
func TestRegionsThatOneCallerMayHave(t *testing.T) {
	all, file := shared(t, 16)
	require.NoError(t, all.Unregister("", ""))
	for i := range mostOfOne {
		require.NoError(t, all.Register("bob", RegionStatus{Name: strconv.Itoa(i), Key: "/c-1", Size: 1}))
	}
	require.ErrorContains(t, all.Register("bob", RegionStatus{Name: "r", Key: "/c-1", Size: 1}), "which is the most, of one caller")
	require.NoError(t, all.Register("alice", RegionStatus{Name: "r", Key: "/c-1", Size: 1}))
	other := filepath.Join(filepath.Dir(file.Name()), "c-2")
	require.NoError(t, os.WriteFile(other, make([]byte, 16), 0o600))
	require.NoError(t, os.Remove(file.Name()))
	require.NoError(t, all.Register("bob", RegionStatus{Name: "r", Key: "/c-2", Size: 1}))
	require.Len(t, all.all, 1)
}

func TestWindowsOfRegions(t *testing.T) {
	all, file := shared(t, 16)
	require.NoError(t, all.Register("", RegionStatus{Name: "half", Key: "/c-1", Offset: 8, Size: 8}))
	for _, c := range []*placeParameters{at("r", 0, 17), at("r", 17, 0), at("r", -1, 1), at("r", 0, -1), at("half", 1, 8), at("r", 1<<63-1, 1<<63-1)} {
		_, err := all.Of("").window(c)
		require.ErrorContains(t, err, "are not within")
	}
	_, err := all.Of("").window(&placeParameters{Region: "r"})
	require.ErrorContains(t, err, "without shared_memory_byte_size")
	_, err = (*CallerRegions)(nil).window(at("r", 0, 1))
	require.ErrorContains(t, err, "takes from none")

	w, err := all.Of("").window(at("half", 2, 3))
	require.NoError(t, err)
	data, err := w.read()
	require.NoError(t, err)
	require.Equal(t, []byte{10, 11, 12}, data)
	require.ErrorContains(t, w.write(make([]byte, 4)), "more than its shared_memory_byte_size of 3")
	require.NoError(t, w.write([]byte{1, 2}))
	raw, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	require.Equal(t, []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 12, 13, 14, 15}, raw)

	// The same bytes through another region.
	other, err := all.Of("").window(at("r", 12, 4))
	require.NoError(t, err)
	require.True(t, w.overlaps(other))
	other.offset = 13
	require.False(t, w.overlaps(other))

	// Cut short, it stays short.
	require.NoError(t, file.Truncate(11))
	_, err = w.read()
	require.ErrorContains(t, err, "has been made shorter")
	require.ErrorContains(t, w.write([]byte{1, 2}), "has been made shorter")
	require.NoError(t, w.write([]byte{1}))
	info, err := file.Stat()
	require.NoError(t, err)
	require.EqualValues(t, 11, info.Size())

	// Another region of its name is not what was meant.
	require.NoError(t, all.Unregister("", "half"))
	require.NoError(t, all.Register("", RegionStatus{Name: "half", Key: "/c-1", Size: 8}))
	_, err = w.read()
	require.ErrorContains(t, err, "was unregistered before it was read")
	require.ErrorContains(t, w.write([]byte{1}), "was unregistered before it was written")
}
