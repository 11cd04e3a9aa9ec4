package sandbox

import (
	"context"
	"errors"
)

func (s *Sandbox) external() (func(context.Context) (*instance, error), error) {
	return nil, errors.New("no")
}
