package files

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/harpagon/harpagon/pipelines"
)

// Prices is a price list: what devices cost, by name.
type Prices struct {
	offers map[string]offer
	reader profileReader
}

// offer is a line of a price list.
type offer struct {
	line  int
	cells map[string]hcl.Range // of the columns that are there
	price float64              // per hour; 0 where the cell is empty
	spot  float64              // per hour; 0 where there is none
	rate  float64              // interruptions per hour of one device
	known bool                 // the rate is given
}

// The columns of a price list.
const (
	columnHardware      = "hardware"
	columnPrice         = "price"
	columnSpot          = "spot_price"
	columnInterruptions = "interruptions"
)

// ReadPrices reads a price list: CSV with a header that names the columns hardware
// and price (money per hour of one device), and may name spot_price and
// interruptions (how often one spot device is taken back, per hour). Other columns
// are passed over, and cells may be empty: a device without a price is not on
// offer. Findings carry the line and column of the file.
func ReadPrices(filename string, src []byte) (Prices, hcl.Diagnostics) {
	src = bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))
	r := csv.NewReader(bytes.NewReader(src))
	r.Comment = '#'
	r.TrimLeadingSpace = true
	r.FieldsPerRecord = -1
	p := &Prices{offers: map[string]offer{}, reader: profileReader{csv: r, filename: filename, src: src}}
	p.read()
	return *p, p.reader.diags
}

func (p *Prices) read() {
	header, err := p.reader.csv.Read()
	if err != nil {
		p.broken(err)
		return
	}
	p.reader.columns, p.reader.width = map[string]int{}, len(header)
	for i, name := range header {
		p.reader.columns[strings.ToLower(strings.TrimSpace(name))] = i
	}
	for _, name := range []string{columnHardware, columnPrice} {
		if _, ok := p.reader.columns[name]; !ok {
			p.reader.report(0, "Missing column", fmt.Sprintf("The header of a price list names hardware and price, and may name spot_price and interruptions; %s is missing.", name))
			return // without its columns no line can be read
		}
	}
	p.reader.rows(p.row, p.broken)
}

func (p *Prices) broken(err error) {
	var parse *csv.ParseError
	line, why := 1, err.Error()+"."
	if errors.As(err, &parse) {
		line, why = parse.Line, parse.Err.Error()+"."
	} else if errors.Is(err, io.EOF) {
		why = "The file is empty; its first line names the columns hardware,price."
	}
	p.reader.diags = append(p.reader.diags, Problem("Broken price list", why, p.reader.lineRange(line)))
}

// row reads one line; it goes on after a finding, so that all are reported.
func (p *Prices) row(record []string) {
	r := &p.reader
	before := len(r.diags)
	r.width = len(record)
	line, _ := r.csv.FieldPos(0)
	name := strings.TrimSpace(r.cell(record, columnHardware))
	first, twice := p.offers[name]
	switch {
	case name == "":
		r.report(r.columns[columnHardware], "Missing hardware", "Each line of a price list names a kind of hardware.")
	case twice:
		r.report(0, "Listed twice", fmt.Sprintf("%q stands already in line %d; keep the line that holds now.", name, first.line))
	}
	o := offer{line: line, cells: map[string]hcl.Range{}}
	o.price = p.amount(record, columnPrice)
	o.spot = p.amount(record, columnSpot)
	o.rate = r.optional(record, columnInterruptions, pipelines.MaxInterruptions, "Invalid interruptions",
		fmt.Sprintf("Interruptions are how often one device is taken back, per hour: from 0 to %d. 20 %% a month are 0.0003.", pipelines.MaxInterruptions))
	o.known = strings.TrimSpace(r.cell(record, columnInterruptions)) != ""
	if len(r.diags) > before {
		return
	}
	for column, field := range r.columns {
		at := *r.lineRange(line)
		if field < len(record) {
			_, at.Start.Column = r.csv.FieldPos(field)
			at.Start.Byte += at.Start.Column - 1
		}
		o.cells[column] = at
	}
	p.offers[name] = o
}

// amount is a number above zero; 0 where the cell is missing or empty.
func (p *Prices) amount(record []string, column string) float64 {
	const summary, detail = "Invalid price", "A price is money per hour, above zero; leave the cell empty where there is no offer."
	before := len(p.reader.diags)
	x := p.reader.optional(record, column, math.MaxFloat64, summary, detail)
	if x == 0 && len(p.reader.diags) == before && strings.TrimSpace(p.reader.cell(record, column)) != "" {
		p.reader.report(p.reader.columns[column], summary, detail)
	}
	return x
}

// Set gives a kind of hardware the price of its line, and with market spot how
// often it is interrupted. What the list lacks for it is found at its line and
// column; where it has no line at all, at where.
func (p Prices) Set(h *pipelines.Hardware, where *hcl.Range) hcl.Diagnostics {
	o, ok := p.offers[h.Listed.Name]
	if !ok {
		names := slices.Sorted(maps.Keys(p.offers))
		return hcl.Diagnostics{Problem("Not on the price list", fmt.Sprintf("%s has no line for %q.%s Add one, or set listed_as to the name that the list has.",
			p.reader.filename, h.Listed.Name, pipelines.Suggest(h.Listed.Name, names)), where)}
	}
	gap := func(column, what string) hcl.Diagnostics {
		at, ok := o.cells[column]
		if !ok {
			at = *p.reader.lineRange(o.line)
		}
		return hcl.Diagnostics{Problem("Gap in the price list", fmt.Sprintf("Hardware %q is bought by this line, which has no %s: fill in the column %s.", h.Name, what, column), &at)}
	}
	switch {
	case h.Listed.Market != pipelines.MarketSpot && o.price == 0:
		return gap(columnPrice, "price")
	case h.Listed.Market != pipelines.MarketSpot:
		h.Price = o.price
		return nil
	case o.spot == 0:
		return gap(columnSpot, "spot price")
	case !o.known:
		return gap(columnInterruptions, "rate of interruptions, without which plans would count on devices that go away (0 where they never do)")
	}
	h.Price, h.Interruptions = o.spot, o.rate
	return nil
}
