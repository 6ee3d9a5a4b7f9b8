package queue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/harpagon/harpagon/wire/stream"
)

// Kind of a Message.
type Kind byte

// The kinds, with the fields that each has. G is from gateway to dispatcher, D the
// other way.
const (
	Hello   Kind = iota + 1 // either way, first: Role, Text (name), Token
	Install                 // G: Generation (its number from now on), Text (a placement.Deployment as JSON)
	Forget                  // G: Generation has no requests any more
	Remove                  // G: Text (service) is not served any more
	Arrive                  // G: Generation, Request, Station, Item, Node, Size, Again, Lost, More, Age, Left, Timed
	Cancel                  // G: Station, Item
	Leave                   // G: Request, How
	Release                 // G: Text (executor) is needed no more
	Claim                   // G: Text (service) had an owner by this Epoch, which is gone
	Own                     // D: Text (service; empty for all), Epoch, which grows with every owner
	Disown                  // D: Text (service; empty for all)
	Start                   // D: Text (executor), Epoch, Batch, Part, Parts, Size (of the whole batch), Left, Age, Items
	Drop                    // D: Station, Item, How
	Fail                    // either way, last: Text is the reason
	Ping                    // either way, answered by Pong: are you there?
	Pong                    // either way
	Lack                    // G: Text (executor), Epoch, Batch, Part, which does not come; How
	Missing                 // D: Text (service), How many of its modules have no executor there
	Ask                     // G: Text (service), Token (stream), Again (it has a place, of that phase), Left; to a Conn that has Places
	Shut                    // G: Text (service), Token (stream) needs its place no more
	Told                    // G: Text (service; empty for all), Epoch: all streams with a place were reported
	Placed                  // D: Text (service), Token (stream), How, Size (streams that are planned for), Left
	kinds
)

// Why a part of a batch does not come to its executor.
const (
	NotAttached = iota // the executor is not attached at the gateway
	Withdrawn          // nothing of it is left: its requests have ended
)

// Values of How of a Placed.
const (
	PlaceOpen  = 1 << iota // the stream has one
	PlaceTaken             // another gateway has it
)

// Message is one message; which fields count depends on its kind.
type Message struct {
	Kind  Kind
	Role  Role
	Text  []byte
	Token []byte

	Generation uint64
	Request    uint64
	Station    uint64 // that the gateway has the item in; see Station
	Item       uint64
	Node       uint64 // module in the generation
	Size       uint64
	How        uint64 // an admission.End, or a dispatcher.Drop; of Lack NotAttached or Withdrawn; of Missing a number; of Placed its flags
	Epoch      uint64
	Batch      uint64
	Part       uint64 // of so many Parts, one for every gateway that has items in the batch
	Parts      uint64

	Age   time.Duration // since the request arrived; of Start since its batch was complete
	Left  time.Duration // until the request's deadline; of Start until the batch is due; of Ask and Placed until an instant at which the stream should send
	Timed bool          // there is a deadline
	Again bool          // the item was queued before and came back without an answer
	Lost  bool          // with its executor, so that it is not what an engine was lost over
	More  bool          // others of the request come to the module with it, in the messages after this

	Items []Ref
}

// Ref names an item in a station of the gateway.
type Ref struct{ Station, Item uint64 }

// placeBits are the lowest of a station's number: a gateway has that many places for
// stations, and those above count the stations that had the place before.
const placeBits = 16

// MaxStations is how many stations a gateway may have at a time.
const MaxStations = 1 << placeBits

// Station is the number of the station at a place that so many have had before.
func Station(place, before uint64) uint64 { return before<<placeBits | place }

// Place is that of a station, by its number.
func Place(station uint64) uint64 { return station & (MaxStations - 1) }

// Role is the sender's role.
type Role byte

// The roles.
const (
	Gateway    Role = 1
	Dispatcher Role = 2
)

func (r Role) String() string {
	switch r {
	case Gateway:
		return "gateway"
	case Dispatcher:
		return "dispatcher"
	}
	return fmt.Sprintf("role %d", byte(r))
}

// Limits of what a peer may send.
const (
	maxFrame = 32 << 20 // bytes; an Install has a whole deployment
	maxItems = 1 << 16  // of a Start
)

// Append adds the frame of a message.
func Append(to []byte, m *Message) []byte {
	to, at := stream.Begin(to)
	return stream.Finish(m.appendFields(append(to, byte(m.Kind))), at)
}

func (m *Message) appendFields(to []byte) []byte {
	switch m.Kind {
	case Hello:
		return appendBytes(appendBytes(append(to, byte(m.Role)), m.Text), m.Token)
	case Install:
		return appendBytes(binary.AppendUvarint(to, m.Generation), m.Text)
	case Forget:
		return binary.AppendUvarint(to, m.Generation)
	case Remove, Release, Disown, Fail:
		return appendBytes(to, m.Text)
	case Arrive:
		to = appendAll(append(to, m.flags()), m.Generation, m.Request, m.Station, m.Item, m.Node, m.Size)
		return binary.AppendVarint(binary.AppendVarint(to, int64(m.Age)), int64(m.Left))
	case Cancel:
		return appendAll(to, m.Station, m.Item)
	case Leave:
		return appendAll(to, m.Request, m.How)
	case Ask:
		return binary.AppendVarint(append(appendBytes(appendBytes(to, m.Text), m.Token), m.flags()), int64(m.Left))
	case Shut:
		return appendBytes(appendBytes(to, m.Text), m.Token)
	case Placed:
		return binary.AppendVarint(appendAll(appendBytes(appendBytes(to, m.Text), m.Token), m.How, m.Size), int64(m.Left))
	case Own, Claim, Told:
		return binary.AppendUvarint(appendBytes(to, m.Text), m.Epoch)
	case Start:
		to = appendAll(appendBytes(to, m.Text), m.Epoch, m.Batch, m.Part, m.Parts, m.Size)
		to = binary.AppendVarint(binary.AppendVarint(to, int64(m.Left)), int64(m.Age))
		to = binary.AppendUvarint(to, uint64(len(m.Items)))
		for _, r := range m.Items {
			to = appendAll(to, r.Station, r.Item)
		}
		return to
	case Drop:
		return appendAll(to, m.Station, m.Item, m.How)
	case Lack:
		return appendAll(appendBytes(to, m.Text), m.Epoch, m.Batch, m.Part, m.How)
	case Missing:
		return binary.AppendUvarint(appendBytes(to, m.Text), m.How)
	}
	return to
}

const (
	flagTimed = 1 << iota
	flagAgain
	flagMore
	flagLost
)

func (m *Message) flags() (f byte) {
	if m.Timed {
		f |= flagTimed
	}
	if m.Again {
		f |= flagAgain
	}
	if m.More {
		f |= flagMore
	}
	if m.Lost {
		f |= flagLost
	}
	return f
}

func appendAll(to []byte, values ...uint64) []byte {
	for _, v := range values {
		to = binary.AppendUvarint(to, v)
	}
	return to
}

func appendBytes(to, text []byte) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}

var errShort = errors.New("queue: a message ends before its last field")

// Parse reads a message from the inside of its frame. Text, Token and Items reuse what
// m has, and texts lie in the frame.
func Parse(frame []byte, m *Message) error {
	items := m.Items[:0]
	*m = Message{Items: items}
	if len(frame) == 0 {
		return errShort
	}
	p := parser{rest: frame[1:]}
	switch m.Kind = Kind(frame[0]); m.Kind {
	case Hello:
		m.Role, m.Text, m.Token = Role(p.byte()), p.bytes(), p.bytes()
	case Install:
		m.Generation, m.Text = p.uint(), p.bytes()
	case Forget:
		m.Generation = p.uint()
	case Remove, Release, Disown, Fail:
		m.Text = p.bytes()
	case Arrive:
		flags := p.byte()
		m.Timed, m.Again, m.More, m.Lost = flags&flagTimed != 0, flags&flagAgain != 0, flags&flagMore != 0, flags&flagLost != 0
		m.Generation, m.Request, m.Station, m.Item, m.Node, m.Size = p.uint(), p.uint(), p.uint(), p.uint(), p.uint(), p.uint()
		m.Age, m.Left = p.duration(), p.duration()
	case Cancel:
		m.Station, m.Item = p.uint(), p.uint()
	case Leave:
		m.Request, m.How = p.uint(), p.uint()
	case Own, Claim, Told:
		m.Text, m.Epoch = p.bytes(), p.uint()
	case Ask:
		m.Text, m.Token, m.Again, m.Left = p.bytes(), p.bytes(), p.byte()&flagAgain != 0, p.duration()
	case Shut:
		m.Text, m.Token = p.bytes(), p.bytes()
	case Placed:
		m.Text, m.Token, m.How, m.Size, m.Left = p.bytes(), p.bytes(), p.uint(), p.uint(), p.duration()
	case Start:
		m.Text, m.Epoch, m.Batch, m.Part, m.Parts, m.Size = p.bytes(), p.uint(), p.uint(), p.uint(), p.uint(), p.uint()
		m.Left, m.Age = p.duration(), p.duration()
		m.Items = p.refs(m.Items)
	case Drop:
		m.Station, m.Item, m.How = p.uint(), p.uint(), p.uint()
	case Ping, Pong:
	case Lack:
		m.Text, m.Epoch, m.Batch, m.Part, m.How = p.bytes(), p.uint(), p.uint(), p.uint(), p.uint()
	case Missing:
		m.Text, m.How = p.bytes(), p.uint()
	default:
		return fmt.Errorf("queue: a message of kind %d, which this version does not have", m.Kind)
	}
	if p.failed {
		return errShort
	}
	if len(p.rest) > 0 {
		return fmt.Errorf("queue: a message of kind %d has %d bytes after its last field", m.Kind, len(p.rest))
	}
	return nil
}

// parser takes fields off the front.
type parser struct {
	rest   []byte
	failed bool
}

func (p *parser) byte() byte {
	if len(p.rest) == 0 {
		p.failed = true
		return 0
	}
	b := p.rest[0]
	p.rest = p.rest[1:]
	return b
}

func (p *parser) uint() uint64 {
	v, n := binary.Uvarint(p.rest)
	if n <= 0 {
		p.failed, p.rest = true, nil
		return 0
	}
	p.rest = p.rest[n:]
	return v
}

func (p *parser) duration() time.Duration {
	v, n := binary.Varint(p.rest)
	if n <= 0 {
		p.failed, p.rest = true, nil
		return 0
	}
	p.rest = p.rest[n:]
	return time.Duration(v)
}

func (p *parser) bytes() []byte {
	n := p.uint()
	if p.failed || n > uint64(len(p.rest)) {
		p.failed, p.rest = true, nil
		return nil
	}
	b := p.rest[:n:n]
	p.rest = p.rest[n:]
	return b
}

// refs reads items; there is no room for more than half as many as bytes.
func (p *parser) refs(to []Ref) []Ref {
	n := p.uint()
	if p.failed || n > maxItems || n > uint64(len(p.rest))/2 {
		p.failed, p.rest = true, nil
		return to
	}
	for range n {
		to = append(to, Ref{Station: p.uint(), Item: p.uint()})
	}
	return to
}
