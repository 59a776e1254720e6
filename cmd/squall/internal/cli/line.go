package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// misnamed is the error of a line with a command that its group does not have. Left to itself,
// cobra prints the group's help for it and calls that a success, which fools a script that goes on
// if a check succeeds. The command is the group.
func misnamed(root *cobra.Command, args []string) (*cobra.Command, error) {
	root.InitDefaultCompletionCmd(args...) // a group like the others
	group, rest, err := root.Find(args)
	if err != nil || group.Runnable() {
		return group, nil // it is said when it is executed
	}
	for _, word := range rest {
		if !strings.HasPrefix(word, "-") {
			return group, fmt.Errorf("unknown command %q for %q%s\nsee %s --help", word, group.CommandPath(), suggestions(group, word), group.CommandPath())
		}
	}
	return group, nil
}

// suggestions are what may have been meant, as cobra prints them for the commands of the program.
func suggestions(group *cobra.Command, word string) (text string) {
	group.SuggestionsMinimumDistance = 2
	for i, name := range group.SuggestionsFor(word) {
		if i == 0 {
			text = "\n\nDid you mean this?"
		}
		text += "\n\t" + name
	}
	return text
}

// wanted says what the values of flags are, by their type.
var wanted = map[string]string{
	"int": "a whole number", "int64": "a whole number", "uint": "a whole number from 0 on", "uint64": "a whole number from 0 on",
	"float64": "a number", "duration": "a duration like 90s or 2h", "bool": "true or false",
}

// flagFault returns the error of a flag in the words of this program: errors of the standard
// library name its functions.
func flagFault(cmd *cobra.Command, err error) error {
	var v *pflag.InvalidValueError
	if errors.As(err, &v) && wanted[v.GetFlag().Value.Type()] != "" {
		err = fmt.Errorf("--%s %s: must be %s", v.GetFlag().Name, v.GetValue(), wanted[v.GetFlag().Value.Type()])
	}
	return fmt.Errorf("%w\nsee %s --help", err, cmd.CommandPath())
}
