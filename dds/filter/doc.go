// Package filter is the filter expressions of DDS (DDS 1.4, Annex B): conditions on the members of
// a sample, as text.
//
//	e, err := filter.Parse("color = 'RED' AND size BETWEEN 10 AND %0 OR NOT owner.name LIKE 'a%'")
//	f, err := filter.Bind[Shape](e, "30")
//	if f(&shape) { … }
//
// A condition is a comparison of a member with a value or with another member, or one of its
// negations and combinations:
//
//	condition = condition OR condition | condition AND condition | NOT condition | ( condition ) | predicate
//	predicate = operand relation operand | member [NOT] BETWEEN value AND value
//	relation  = "=" | "<>" | "!=" | "<" | "<=" | ">" | ">=" | LIKE
//	operand   = member | value                        one of the two is a member
//	member    = name { "." name }
//	value     = 'text' | integer | decimal | TRUE | FALSE | %n
//
// NOT binds stronger than AND, and AND stronger than OR. Words of the grammar may be written in
// small letters. Two quotation marks within a text stand for one. %n is the parameter with the
// number n, from 0 to 99, whose text is a value itself. LIKE compares with a pattern, in which % is
// any text and _ any character. What lies between two % has at most 64 characters if one of them is
// _. A constant of an enum is written as a text, and so is a char. Integers and decimals are
// compared exactly.
//
// A name of a field is its name in package cdr: the tag's `name=`, or the name of the Go field, in
// small or capital letters.
//
// Parsing and binding trust nothing of the text: what does not fit the type is an error of Bind,
// never of the evaluation, which allocates nothing, unless a pattern is a member. The time of an
// evaluation grows linearly with the texts that it compares.
package filter
