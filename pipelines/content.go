package pipelines

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// File is one file that a module needs where it runs, known by what is in it:
// whoever runs the module takes the content of that digest from wherever it is,
// and nothing else.
type File struct {
	Path    string // absolute, on the machine where it was declared; or its address
	Digest  string // "sha256:" and 64 hexadecimal digits
	Size    int64  // in bytes
	Program bool   `json:",omitempty"` // may be executed
}

// Short is the beginning of the file's digest, for people.
func (f File) Short() string { return ShortDigest(f.Digest) }

// Name is the last element of the file's path or address.
func (f File) Name() string {
	name, _, _ := strings.Cut(f.Path, "?")
	return name[strings.LastIndexByte(name, '/')+1:]
}

// ShortDigest is the beginning of a digest, enough to tell it apart: "sha256:"
// and twelve digits.
func ShortDigest(digest string) string { return digest[:min(len(digest), len(digestPrefix)+12)] }

// digestPrefix is how every digest begins.
const digestPrefix = "sha256:"

var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// CheckDigest says what is wrong with a digest that somebody wrote.
func CheckDigest(digest string) error {
	if !digestForm.MatchString(digest) {
		return fmt.Errorf("%q is no digest: write %s and the 64 hexadecimal digits that sha256sum prints", digest, digestPrefix)
	}
	return nil
}

// FetchSchemes are the protocols of addresses from which a model's file is
// fetched by a command of the user's own.
func FetchSchemes() []string { return []string{"oci", "s3", "gs", "hf"} }

// IsFetched says whether a module's model is the address of a file, which is
// fetched when the declaration is applied: of http and https those that name an
// ONNX file, and all of FetchSchemes. All other addresses are of models on
// servers.
func IsFetched(model string) bool {
	scheme, rest, found := strings.Cut(model, "://")
	if !found {
		return false
	}
	if scheme == "http" || scheme == "https" {
		path, _, _ := strings.Cut(rest, "#")
		path, _, _ = strings.Cut(path, "?")
		return strings.HasSuffix(path, ".onnx")
	}
	return slices.Contains(FetchSchemes(), scheme)
}

// FetchAddress divides the address of a file into where it is and the digest that
// the declaration asks for after a #; empty where it asks for none.
func FetchAddress(model string) (address, digest string) {
	address, digest, _ = strings.Cut(model, "#")
	return address, digest
}
