package onnxruntime

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// variable is the environment variable that names the shared library.
const variable = "ONNXRUNTIME_SHARED_LIBRARY_PATH"

// Install states how to get the library.
const Install = "npm install --ignore-scripts onnxruntime-node@1.24.3, or set " + variable + " to libonnxruntime.so of another release"

// The least version that the binding can use.
const (
	leastMajor = 1
	leastMinor = 24
)

// ErrNotFound means that there is no shared library of ONNX Runtime here.
var ErrNotFound = errors.New("onnxruntime: the shared library of ONNX Runtime was not found; get it with: " + Install)

// LibraryError states why a shared library cannot be used.
type LibraryError struct {
	Path   string
	Reason string
}

// Error names the file.
func (e *LibraryError) Error() string { return fmt.Sprintf("onnxruntime: %s: %s", e.Path, e.Reason) }

// Library is a shared library of ONNX Runtime.
type Library struct {
	Path    string
	Version string // as in the file, such as "1.24.3"; "unknown" where it has none
	From    string // where it was found, in words
}

// Describe is the library in one line.
func (l Library) Describe() string {
	return fmt.Sprintf("ONNX Runtime %s (%s, from %s)", l.Version, l.Path, l.From)
}

// place is one file or pattern to look at. A named place must hold a library.
type place struct {
	pattern, from string
	named         bool
}

// Find looks for the shared library, in the order of the package comment. The
// error is a *LibraryError where a library is there but cannot be used, and
// ErrNotFound where there is none.
func Find(o Options) (Library, error) {
	var wrong error
	for _, p := range places(o) {
		found, _ := filepath.Glob(p.pattern) // a bad pattern finds nothing
		slices.Sort(found)
		slices.Reverse(found) // the highest version first
		if p.named {
			found = []string{p.pattern}
		}
		for _, path := range found {
			lib, err := inspect(path, p.from)
			if err == nil {
				return lib, nil
			}
			if p.named {
				return Library{}, err
			}
			if wrong == nil {
				wrong = err
			}
		}
	}
	if wrong != nil {
		return Library{}, wrong
	}
	return Library{}, ErrNotFound
}

func places(o Options) []place {
	var all []place
	if o.Library != "" {
		return []place{{o.Library, "the setting", true}}
	}
	getenv := o.Getenv
	if getenv == nil {
		getenv = os.Getenv
	}
	if path := getenv(variable); path != "" {
		return []place{{path, variable, true}}
	}
	if dir, err := os.UserCacheDir(); err == nil {
		all = append(all, place{filepath.Join(dir, "harpagon", "onnxruntime", fileName()), "the cache folder", false})
	}
	all = append(all, nodeModules()...)
	for _, dir := range strings.Split(getenv("LD_LIBRARY_PATH"), string(os.PathListSeparator)) {
		if dir != "" {
			all = append(all, place{filepath.Join(dir, fileName()), "LD_LIBRARY_PATH", false})
		}
	}
	for _, dir := range systemFolders() {
		all = append(all, place{filepath.Join(dir, fileName()), "the system's libraries", false})
	}
	return all
}

// nodeModules are the places where npm puts onnxruntime-node: in the working
// folder or one above it.
func nodeModules() (all []place) {
	dir, err := os.Getwd()
	if err != nil {
		return nil
	}
	machine := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if machine == "" {
		machine = runtime.GOARCH
	}
	for {
		all = append(all, place{filepath.Join(dir, "node_modules", "onnxruntime-node", "bin", "napi-v*", runtime.GOOS, machine, fileName()), "node_modules", false})
		above := filepath.Dir(dir)
		if above == dir {
			return all
		}
		dir = above
	}
}

func systemFolders() []string {
	triple := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[runtime.GOARCH]
	return []string{
		"/usr/local/lib", "/opt/onnxruntime/lib", filepath.Join("/usr/lib", triple), "/usr/lib64", "/usr/lib", "/opt/homebrew/lib",
	}
}

func fileName() string {
	if runtime.GOOS == "darwin" {
		return "libonnxruntime*.dylib"
	}
	return "libonnxruntime.so*"
}

// inspect reads the version of a library without running its code.
func inspect(path, from string) (Library, error) {
	lib := Library{Path: path, Version: "unknown", From: from}
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return lib, &LibraryError{Path: path, Reason: fmt.Sprintf("there is no such file, though %s names it; get one with: %s", from, Install)}
	}
	if runtime.GOOS != "linux" {
		return lib, nil // checked at Load
	}
	f, err := elf.Open(path)
	if err != nil {
		return lib, &LibraryError{Path: path, Reason: fmt.Sprintf("it is no shared library (%v)", err)}
	}
	defer f.Close()
	if want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]; want != f.Machine {
		return lib, &LibraryError{Path: path, Reason: fmt.Sprintf("it is for another processor (%v)", f.Machine)}
	}
	if !exports(f, "OrtGetApiBase") {
		return lib, &LibraryError{Path: path, Reason: "it is not ONNX Runtime: it has no OrtGetApiBase"}
	}
	if lib.Version = versionOf(f); !recent(lib.Version) {
		return lib, &LibraryError{Path: path, Reason: fmt.Sprintf("it is ONNX Runtime %s, and %d.%d or later is needed; get one with: %s", lib.Version, leastMajor, leastMinor, Install)}
	}
	return lib, nil
}

func exports(f *elf.File, name string) bool {
	symbols, err := f.DynamicSymbols()
	return err == nil && slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == name && s.Section != elf.SHN_UNDEF })
}

// versionOf reads the version that the library's symbols carry: VERS_1.24.3.
func versionOf(f *elf.File) string {
	versions, err := f.DynamicVersions()
	if err != nil {
		return "unknown"
	}
	for _, v := range versions {
		if version, ok := strings.CutPrefix(v.Name, "VERS_"); ok {
			return version
		}
	}
	return "unknown"
}

// recent is true of versions that can be used, and of unknown ones, which the library itself
// reports when it is loaded.
func recent(version string) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return true
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	if err1 != nil || err2 != nil {
		return true
	}
	return major > leastMajor || major == leastMajor && minor >= leastMinor
}

// Provider is where a session computes.
type Provider string

// The providers.
const (
	CPU      Provider = "cpu"
	CUDA     Provider = "cuda"
	TensorRT Provider = "tensorrt"
)

// InstallGPU states how to get a library that computes on GPUs.
const InstallGPU = "take the onnxruntime-linux-x64-gpu archive of ONNX Runtime's releases with the CUDA and cuDNN that it names, and set " + variable + " to its libonnxruntime.so"

// Providers lists them.
func Providers() []Provider { return []Provider{CPU, CUDA, TensorRT} }

// Engine is the name of the provider's engine in declarations.
func (p Provider) Engine() string {
	if p == CPU || p == "" {
		return Name
	}
	return Name + "-" + string(p)
}

// ProviderOf is the provider of an engine's name; false for other engines.
func ProviderOf(engine string) (Provider, bool) {
	for _, p := range Providers() {
		if p.Engine() == engine {
			return p, true
		}
	}
	return "", false
}

// library is the file that ONNX Runtime loads beside its own for the provider.
func (p Provider) library() string {
	if p == CPU || p == "" {
		return ""
	}
	return "libonnxruntime_providers_" + string(p) + ".so"
}

// check reports why the library has no such provider; nil when it has.
func (p Provider) check(lib Library) error {
	file := p.library()
	if file == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(lib.Path), file)); err != nil {
		return &LibraryError{Path: lib.Path, Reason: fmt.Sprintf(
			"it computes on the CPU only, for %s is not beside it; %s", file, InstallGPU)}
	}
	return nil
}
