package journal

import (
	"iter"

	"github.com/squall-go/squall/order"
)

// Header says what is in a block.
type Header struct {
	Index       uint64 // of the entry in the store
	First       uint64 // number of the first record
	Count       uint32 // records
	View        order.ViewID
	FirstSeq    order.Seq
	LastSeq     order.Seq
	FirstTime   order.Time
	LastTime    order.Time
	Part, Parts uint32 // of a record that takes several blocks
}

// Book reads a log.
type Book struct{}

func OpenBook(s Store) (*Book, Repaired, error) { panic("soon") }

func (b *Book) First() (Header, bool)                        { panic("soon") }
func (b *Book) Last() (Header, bool)                         { panic("soon") }
func (b *Book) Count() uint64                                { panic("soon") }
func (b *Book) End() End                                     { panic("soon") }
func (b *Book) Extend(e End)                                 { panic("soon") }
func (b *Book) Fork() *Book                                  { panic("soon") }
func (b *Book) Find(v order.Version) (uint64, error)         { panic("soon") }
func (b *Book) Seek(v order.Version) (uint64, error)         { panic("soon") }
func (b *Book) FindTime(t order.Time) (uint64, error)        { panic("soon") }
func (b *Book) Read(number uint64) (Record, error)           { panic("soon") }
func (b *Book) Records(from uint64) iter.Seq2[Record, error] { panic("soon") }
func (b *Book) CutAfter(number uint64) error                 { panic("soon") }
func (b *Book) DropBefore(number uint64) error               { panic("soon") }
func (b *Book) Restart(at End) error                         { panic("soon") }
