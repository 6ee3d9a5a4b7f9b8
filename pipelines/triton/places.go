package triton

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/harpagon/harpagon/pipelines/files"
	"github.com/harpagon/harpagon/pipelines/triton/modelconfig"
)

// config is a configuration with the places of its fields.
type config struct {
	*modelconfig.ModelConfig
	file   string
	places []place
}

// place is where a field stands. A repeated one has a place for each of its values.
type place struct {
	path  string // names of the fields around it and its own, by dots
	value string // of a number, word or text
	at    hcl.Range
}

// parse reads a configuration. Fields that the schema does not have are warnings.
func parse(file string, src []byte) (*config, hcl.Diagnostics) {
	c := &config{ModelConfig: new(modelconfig.ModelConfig), file: file}
	if err := (prototext.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(src, c.ModelConfig); err != nil {
		return nil, hcl.Diagnostics{broken(file, err)}
	}
	w := &walker{src: src, file: file, line: 1, column: 1}
	w.message("")
	c.places = w.places
	return c, c.unknown()
}

var atLine = regexp.MustCompile(`^(.*?)\(line (\d+):(\d+)\):?\s*(.*)$`)

// broken is what is wrong with a text that is no configuration.
func broken(file string, err error) *hcl.Diagnostic {
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ") // the library varies its spaces
	text = strings.TrimSpace(strings.TrimPrefix(text, "proto:"))
	at := hcl.Range{Filename: file, Start: hcl.InitialPos, End: hcl.InitialPos}
	if m := atLine.FindStringSubmatch(text); m != nil {
		at.Start.Line, _ = strconv.Atoi(m[2])
		at.Start.Column, _ = strconv.Atoi(m[3])
		at.End, text = at.Start, m[1]+m[4]
	}
	return files.Problem("No configuration of a model", fmt.Sprintf("It is not protocol buffers as text (%s).", text), &at)
}

// unknown finds fields that the schema does not have.
func (c *config) unknown() (diags hcl.Diagnostics) {
	strange := map[string]bool{}
	for _, p := range c.places {
		around := p.path[:max(strings.LastIndexByte(p.path, '.'), 0)]
		if strange[around] {
			strange[p.path] = true
			continue
		}
		if !isField(p.path) {
			strange[p.path] = true
			diags = append(diags, files.Warning("Unknown field", fmt.Sprintf("The public schema of configurations, as it is known here, has no %s; it is passed over.", p.path), &p.at))
		}
	}
	return diags
}

func isField(path string) bool {
	m := (*modelconfig.ModelConfig)(nil).ProtoReflect().Descriptor()
	for _, name := range strings.Split(path, ".") {
		if m == nil {
			return false
		}
		f := m.Fields().ByName(protoreflect.Name(name))
		if f == nil {
			return false
		}
		m = f.Message()
	}
	return true
}

// at is where a field stands first; the beginning of the file where it does not.
func (c *config) at(path string) *hcl.Range {
	if p := c.find(path, ""); p != nil {
		return &p.at
	}
	return &hcl.Range{Filename: c.file, Start: hcl.InitialPos, End: hcl.InitialPos}
}

// find is the first place of a field with the value; empty for any.
func (c *config) find(path, value string) *place {
	for i := range c.places {
		if p := &c.places[i]; p.path == path && (value == "" || p.value == value) {
			return p
		}
	}
	return nil
}

const stepPath = "ensemble_scheduling.step"

// step is where a step of an ensemble stands or, where it has one, an entry of a map in it.
func (c *config) step(n int, entry, key string) *hcl.Range {
	return c.within(stepPath, n, entry, key)
}

// within is where the nth value of a repeated field stands or, where it has one, a field in it.
func (c *config) within(path string, n int, entry, key string) *hcl.Range {
	seen, at := -1, c.at(path)
	for i := range c.places {
		p := &c.places[i]
		if p.path == path {
			seen++
		}
		switch {
		case seen == n && p.path == path:
			at = &p.at
		case seen == n && entry != "" && p.path == path+"."+entry && (key == "" || p.value == key):
			return &p.at
		}
	}
	return at
}

// Bounds of paths, beyond any of the schema: in messages, and in bytes. What is deeper counts to
// the message around it.
const (
	deepest  = 16
	mostPath = 1 << 10
)

// walker goes through a text that is sound, and notes where fields stand.
type walker struct {
	src          []byte
	at           int
	line, column int
	depth        int // of messages around
	file         string
	places       []place
}

func (w *walker) more() bool { return w.at < len(w.src) }

// step goes on by one character.
func (w *walker) step() {
	_, n := utf8.DecodeRune(w.src[w.at:])
	w.column++
	if w.src[w.at] == '\n' {
		w.line, w.column = w.line+1, 1
	}
	w.at += n
}

// skip goes past spaces, comments and what separates fields, and gives the character there; 0 at
// the end.
func (w *walker) skip() byte { return w.past(",;:") }

// past is skip where only these separate.
func (w *walker) past(separators string) byte {
	for comment := false; w.more(); w.step() {
		switch c := w.src[w.at]; {
		case comment || c == '#':
			comment = c != '\n'
		case !unicode.IsSpace(rune(c)) && strings.IndexByte(separators, c) < 0:
			return c
		}
	}
	return 0
}

func (w *walker) here() hcl.Range {
	p := hcl.Pos{Line: w.line, Column: w.column, Byte: w.at}
	return hcl.Range{Filename: w.file, Start: p, End: p}
}

// message goes through fields up to the end of the message.
func (w *walker) message(around string) {
	for {
		c := w.skip()
		if c == 0 || c == '}' || c == '>' {
			if c != 0 {
				w.step()
			}
			return
		}
		at := w.here()
		path := w.word()
		switch {
		case w.depth > deepest || len(around) > mostPath:
			path = around
		case around != "":
			path = around + "." + path
		}
		if c := w.skip(); c != '[' {
			w.value(path, at)
			continue
		}
		w.step()
		for first := true; ; first = false {
			c := w.skip()
			if c == 0 || c == ']' {
				break
			}
			if !first {
				at = w.here()
			}
			w.value(path, at)
		}
		if w.more() {
			w.step()
		}
	}
}

// value goes through one value of a field.
func (w *walker) value(path string, at hcl.Range) {
	n := len(w.places)
	w.places = append(w.places, place{path: path, at: at})
	switch w.skip() {
	case 0:
	case '{', '<':
		w.step()
		w.depth++
		w.message(path)
		w.depth--
	case '"', '\'':
		for c := w.past(""); c == '"' || c == '\''; c = w.past("") {
			w.places[n].value += w.text(c)
		}
	default:
		w.places[n].value = w.word()
	}
}

// word is what stands up to a space or a sign.
func (w *walker) word() string {
	begin := w.at
	for w.more() && !unicode.IsSpace(rune(w.src[w.at])) && !strings.ContainsRune(",;:{}<>[]#\"'", rune(w.src[w.at])) {
		w.step()
	}
	if w.at == begin && w.more() {
		w.step() // a sign that no sound text has here
	}
	return string(w.src[begin:w.at])
}

// text is a quoted text; what it escapes is left as it stands.
func (w *walker) text(quote byte) string {
	w.step()
	begin := w.at
	for w.more() && w.src[w.at] != quote {
		if w.src[w.at] == '\\' {
			w.step()
		}
		if w.more() {
			w.step()
		}
	}
	text := string(w.src[begin:w.at])
	if w.more() {
		w.step()
	}
	return text
}
