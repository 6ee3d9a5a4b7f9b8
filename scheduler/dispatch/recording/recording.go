package recording

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
)

// version is that of the format.
const version = 2

const magic = "HARPREC"

// Recording holds events and actions of the stations of a dispatcher, or of a simulation.
type Recording struct {
	Head
	Stations []Station
}

// Head states what a recording is of.
type Head struct {
	Program string    // that recorded: its name and version
	Written time.Time // when; zero for a simulation
	Epoch   time.Time // the instant 0 of its times; zero for a simulation
}

// Station is the dispatcher of one module, pool or function.
type Station struct {
	Name  string
	Parts []Part `json:"-"`
}

// Append writes the recording.
func (r Recording) Append(b []byte) ([]byte, error) {
	b = append(append(b, magic...), version)
	frames := 0
	add := func(letter byte, content []byte) {
		b = append(b, letter)
		start := len(b) - 1
		b = binary.AppendUvarint(b, uint64(len(content)))
		b = append(b, content...)
		b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b[start:]))
		frames++
	}
	addJSON := func(letter byte, v any) error {
		text, err := json.Marshal(v)
		if err == nil {
			add(letter, text)
		}
		return err
	}
	if err := addJSON('r', r.Head); err != nil {
		return nil, err
	}
	for _, s := range r.Stations {
		if err := addJSON('s', s); err != nil {
			return nil, err
		}
		for _, p := range s.Parts {
			if err := addJSON('p', p); err != nil {
				return nil, fmt.Errorf("recording of %s: %w", s.Name, err)
			}
			add('e', p.Steps)
		}
	}
	add('z', binary.AppendUvarint(nil, uint64(frames)))
	return b, nil
}

// Parse reads a recording. The error reports what is wrong with the bytes.
func Parse(b []byte) (Recording, error) {
	var r Recording
	switch {
	case len(b) < len(magic)+1 || string(b[:len(magic)]) != magic:
		return r, fmt.Errorf("this is no recording of harpagon: a recording begins with %s", magic)
	case b[len(magic)] != version:
		return r, fmt.Errorf("the recording has version %d of the format; this harpagon reads version %d. Replay it with the version that recorded it", b[len(magic)], version)
	}
	p := parser{rest: b[len(magic)+1:], all: len(b)}
	for !p.ended {
		if err := p.frame(&r); err != nil {
			return Recording{}, err
		}
	}
	return r, nil
}

// parser reads frames.
type parser struct {
	rest   []byte
	all    int // bytes of the recording
	frames uint64
	ended  bool
}

func (p *parser) at() int { return p.all - len(p.rest) }

// next takes the next frame off.
func (p *parser) next() (letter byte, content []byte, err error) {
	at, whole := p.at(), p.rest
	cut := fmt.Errorf("the recording is cut off: it ends after %d bytes in the middle of frame %d, which begins at byte %d", p.all, p.frames+1, at)
	if len(whole) == 0 {
		return 0, nil, cut
	}
	n, size := binary.Uvarint(whole[1:])
	if size < 0 {
		return 0, nil, fmt.Errorf("the recording is damaged at byte %d: a frame has no length", at)
	}
	if size == 0 || n > uint64(len(whole)-1-size) || int(n) > len(whole)-1-size-crc32.Size {
		return 0, nil, cut
	}
	head := 1 + size + int(n)
	if binary.LittleEndian.Uint32(whole[head:]) != crc32.ChecksumIEEE(whole[:head]) {
		return 0, nil, fmt.Errorf("the recording is damaged: the checksum of frame %d, at byte %d, is wrong", p.frames+1, at)
	}
	p.rest = whole[head+crc32.Size:]
	return whole[0], whole[1+size : head], nil
}

// frame reads one frame into the recording.
func (p *parser) frame(r *Recording) error {
	at := p.at()
	letter, content, err := p.next()
	if err != nil {
		return err
	}
	if err := p.take(r, letter, content); err != nil {
		return fmt.Errorf("the recording is damaged: frame %d, at byte %d: %w", p.frames+1, at, err)
	}
	p.frames++
	return nil
}

func (p *parser) take(r *Recording, letter byte, content []byte) error {
	stations := len(r.Stations)
	switch {
	case letter == 'r' && p.frames == 0:
		return json.Unmarshal(content, &r.Head)
	case letter == 's' && p.frames > 0:
		r.Stations = append(r.Stations, Station{})
		return json.Unmarshal(content, &r.Stations[stations])
	case letter == 'p' && stations > 0:
		s := &r.Stations[stations-1]
		s.Parts = append(s.Parts, Part{})
		return json.Unmarshal(content, &s.Parts[len(s.Parts)-1])
	case letter == 'e' && stations > 0 && len(r.Stations[stations-1].Parts) > 0:
		s := &r.Stations[stations-1]
		s.Parts[len(s.Parts)-1].Steps = content
		return nil
	case letter == 'z' && p.frames > 0:
		if frames, n := binary.Uvarint(content); n != len(content) || frames != p.frames || len(p.rest) > 0 {
			return errMalformed
		}
		p.ended = true
		return nil
	}
	return fmt.Errorf("a frame %q is not expected here", letter)
}

// partsInMemory is in how many parts a recorder divides its memory. The oldest part is forgotten
// as a whole. Each begins with the state of its policy; where that is larger than such a part, a
// part is as large as the state, and memory holds two of them.
const partsInMemory = 8

// Recorder keeps the latest steps of one station. A driver calls it for every policy that
// is put in charge and for every step. The zero value keeps everything; nil keeps nothing.
type Recorder struct {
	Limit int // bytes that may be kept; 0 for no bound

	parts  []Part // the last is being written
	codec  codec
	kept   int // bytes of all parts, of Specs that follow each other only once
	policy dispatch.Policy
	off    bool // the policy in charge cannot be recorded
}

// Part is a run of steps of one policy.
type Part struct {
	Spec  factory.Spec
	State json.RawMessage `json:",omitempty"` // what the policy remembered before; nil where it was new
	Steps []byte          `json:"-"`          // see codec
}

// Begin notes that a policy made from spec is in charge from now on; learned means that it
// has inherited what its predecessor measured.
func (r *Recorder) Begin(p dispatch.Policy, spec factory.Spec, learned bool) {
	if r == nil {
		return
	}
	r.policy = p
	r.open(spec, learned)
}

// open begins a part. A policy that cannot be recorded ends the recording: what comes after it
// would have no beginning.
func (r *Recorder) open(spec factory.Spec, learned bool) {
	part := Part{Spec: spec}
	r.codec, r.off = codec{}, spec == factory.Spec{}
	if learned && !r.off {
		var err error
		part.State, err = remembered(r.policy)
		r.off = err != nil
	}
	if r.off {
		return
	}
	if n := len(r.parts); n == 0 || r.parts[n-1].Spec != spec {
		r.kept += sizeOf(spec)
	}
	r.parts = append(r.parts, part)
	r.kept += len(part.State)
	r.forget()
}

// forget drops the oldest parts where memory is full: there must be room for the one that is
// being written. Policies may follow each other so quickly that no part is ever filled.
func (r *Recorder) forget() {
	for r.Limit > 0 && len(r.parts) > 2 && r.kept > r.Limit-r.Limit/partsInMemory {
		first := r.parts[0]
		r.kept -= len(first.State) + len(first.Steps)
		if r.parts[1].Spec != first.Spec {
			r.kept -= sizeOf(first.Spec)
		}
		r.parts = slices.Delete(r.parts, 0, 1)
	}
}

// sizeOf is how many bytes a Spec takes.
func sizeOf(spec factory.Spec) int {
	text, _ := json.Marshal(spec) // what cannot be written fails with its part
	return len(text)
}

// remembered is what a policy remembers: its fields as JSON, or what its MarshalJSON writes. A
// recording whose memory is bounded begins in the middle of a policy's life, and to decide it again
// this must be known. Policies are plain values, with no pointers to anything outside; fields of
// theirs that are only scratch memory between two steps are not exported.
func remembered(p dispatch.Policy) (json.RawMessage, error) {
	state, err := json.Marshal(p)
	if err == nil && string(state) == "{}" {
		err = fmt.Errorf("policy %s hides its state: its fields are not exported, and it has no MarshalJSON", p.Name())
	}
	return state, err
}

// restore gives a policy that was made from the same Spec what another has remembered.
func restore(state json.RawMessage, p dispatch.Policy) error {
	if json.Unmarshal(state, p) == nil {
		if again, err := json.Marshal(p); err == nil && bytes.Equal(again, state) {
			return nil
		}
	}
	return fmt.Errorf("it begins in the middle, and what policy %s remembers is not the same in this version of harpagon; replay it with the version that recorded it, or record from the start", p.Name())
}

// Step notes an event and the actions that it led to.
func (r *Recorder) Step(now dispatch.Time, ev dispatch.Event, actions []dispatch.Action) {
	if r == nil || r.off || len(r.parts) == 0 {
		return
	}
	part := &r.parts[len(r.parts)-1]
	before := len(part.Steps)
	r.codec.b = part.Steps
	r.codec.step(&Step{now, ev, actions})
	part.Steps, r.codec.b = r.codec.b, nil
	r.kept += len(part.Steps) - before
	if r.Limit > 0 && len(part.Steps) >= max(r.Limit/partsInMemory, len(part.State)) {
		r.open(part.Spec, true)
	}
}

// Parts is what has been recorded, oldest first.
func (r *Recorder) Parts() []Part {
	if r == nil {
		return nil
	}
	parts := slices.Clone(r.parts)
	if n := len(parts); n > 0 {
		parts[n-1].Steps = slices.Clone(parts[n-1].Steps) // goes on being written
	}
	return parts
}
