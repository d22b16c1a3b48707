"""The options that choose groups, and the filter that they make."""

from __future__ import annotations

from seriatim.box.views.groups import GroupFilter
from seriatim.cli.options.listing import options_of
from seriatim.operations.groups import groups

__all__ = ["choosing", "filter_of"]

#: The options of the filters of groups.
choosing = options_of(groups, without=("limit",))
#: The filter of these options.
filter_of = GroupFilter
