package rdmc

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/squall-go/squall/cmd/squall/internal/show"
)

// run plays what was chosen. Standard output gets the result, standard error what is for people
// meanwhile.
func (o *simOptions) run(ctx context.Context, out, errs io.Writer) error {
	if o.plot != "" {
		if err := os.MkdirAll(o.plot, 0o777); err != nil {
			return err
		}
	}
	if err := play(ctx, o.chosen, errs); err != nil {
		return err
	}
	if o.plot != "" {
		for _, f := range o.chosen {
			if err := f.draw(filepath.Join(o.plot, f.Name+".svg")); err != nil {
				return err
			}
		}
	}
	return o.print(out)
}

// play fills in the points of figures. Cases that stand in several figures are played once.
func play(ctx context.Context, figures []Figure, errs io.Writer) error {
	total := 0
	for _, f := range figures {
		for _, c := range f.Curves {
			total += len(c.settings)
		}
	}
	p := show.NewProgress(show.ProgressConfig{To: errs, What: "computing", Total: int64(total), Unit: "cases"})
	defer p.End()
	known := map[string]Point{}
	for _, f := range figures {
		for i := range f.Curves {
			if err := f.Curves[i].play(ctx, known, p); err != nil {
				return fmt.Errorf("%s: %w", f.Name, err)
			}
		}
	}
	return nil
}

func (c *Curve) play(ctx context.Context, known map[string]Point, p *show.Progress) error {
	for _, s := range c.settings {
		if err := ctx.Err(); err != nil {
			return err
		}
		key := fmt.Sprintf("%+v", s)
		point, ok := known[key]
		if !ok {
			var err error
			if point, err = s.play(); err != nil {
				return err
			}
			known[key] = point
		}
		c.Points = append(c.Points, point)
		p.Add()
	}
	return nil
}
