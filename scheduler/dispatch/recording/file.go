package recording

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"time"
)

// Version is that of the format.
const Version = 2

const magic = "HARPREC"

// Recording is what the stations of a gateway, or of a simulation, were told and decided.
type Recording struct {
	Head
	Stations []Station
}

// Head says what a recording is of.
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
	b = append(append(b, magic...), Version)
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

// Parse reads a recording. The error says what is wrong with the bytes.
func Parse(b []byte) (Recording, error) {
	var r Recording
	switch {
	case len(b) < len(magic)+1 || string(b[:len(magic)]) != magic:
		return r, fmt.Errorf("this is no recording of harpagon: a recording begins with %s", magic)
	case b[len(magic)] != Version:
		return r, fmt.Errorf("the recording has version %d of the format; this harpagon reads version %d. Replay it with the version that recorded it", b[len(magic)], Version)
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
