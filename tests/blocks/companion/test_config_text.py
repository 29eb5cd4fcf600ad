# SPDX-License-Identifier: GPL-3.0-or-later
"""The texts of config.conf and grc.conf: what is the user's stays as it is, to the byte."""

import pytest

from oac_blocks.companion.config_text import (
    block_folders,
    recent_flowgraphs,
    with_folder,
    with_recent_flowgraphs,
    without_folders,
)

OURS, OTHER_OURS = "/opt/a/oac_blocks/grc", "/home/b/oac_blocks/grc"

USERS_FILES = {
    "none": "",
    "another section": "[qtgui]\nqss = dark.qss\n",
    "the section without the key": "# mine\n[grc]\neditor = /usr/bin/gedit  # the only one\n[log]\nlog_level = debug\n",
    "paths of the user's": "[grc]\nlocal_blocks_path = /home/me/grc:/opt/x  # both\nxterm_executable = xterm\n",
    "capitals and spaces": "[ GRC ]\n  Local_Blocks_Path=/home/me/grc\n",
    "no section": "grc.local_blocks_path = /home/me/grc\n",
    "twice": "[grc]\nlocal_blocks_path = /old\n[log]\n[grc]\nlocal_blocks_path = /new\n",
    "lines of Windows": "[grc]\r\nlocal_blocks_path = /home/me/grc\r\n",
    "a comment that looks like it": "[grc]\n# local_blocks_path = /not/this\n",
    "an empty path": "[grc]\nlocal_blocks_path =\n",
}


def is_ours(folder):
    return folder.endswith("oac_blocks/grc")


def registered(text, folder=OURS, inherited=()):
    return with_folder(text, folder, is_ours, inherited)


@pytest.fixture(params=USERS_FILES.values(), ids=USERS_FILES)
def text(request):
    return request.param


def test_our_folder_comes_behind_those_of_the_user(text):
    assert block_folders(registered(text)) == [*block_folders(text), OURS]


def test_all_other_lines_stay(text):
    kept = [line for line in text.splitlines() if "local_blocks_path" not in line.lower() or line.startswith("#")]
    after = registered(text).splitlines()
    assert [line for line in after if line in kept] == kept


def test_a_second_time_changes_nothing(text):
    assert registered(registered(text)) == registered(text)


def test_what_was_added_is_taken_back_to_the_byte(text):
    assert without_folders(registered(text), is_ours) == text
    assert without_folders(text, is_ours) == text


def test_another_installation_of_ours_is_replaced(text):
    assert registered(registered(text, OTHER_OURS)) == registered(text)


def test_folders_that_the_system_names_are_named_in_the_users_line_too():
    after = registered("", inherited=["/usr/local/grc"])
    assert block_folders(after) == ["/usr/local/grc", OURS]
    assert without_folders(after, is_ours, ["/usr/local/grc"]) == ""


def test_a_line_that_the_user_has_changed_since_stays():
    after = registered("").replace(OURS, f"/home/me/grc:{OURS}")
    assert block_folders(without_folders(after, is_ours)) == ["/home/me/grc"]


def test_it_is_taken_back_when_companion_has_dropped_the_comments():
    after = registered("[grc]\neditor = vi\n").partition("  #")[0] + "\n"
    assert "added" not in after
    assert block_folders(without_folders(after, is_ours)) == []


def test_keys_that_the_user_has_added_to_our_section_stay():
    after = registered("") + "editor = vi\n"
    assert "[grc]" in without_folders(after, is_ours)
    assert "editor = vi\n" in without_folders(after, is_ours)


def test_a_last_line_without_an_end_is_ended():
    assert block_folders(registered("[grc]")) == [OURS]
    assert registered("[log]\nlog_level = debug").startswith("[log]\nlog_level = debug\n[grc]")


STATE = "[main]\nmain_window_width = 900\n\n[files_open]\n\n[files_recent]\nfiles_recent_0 = /home/me/a.grc\n"


def test_recent_flowgraphs_are_ten_at_most_and_the_rest_of_the_state_stays():
    files = [f"/x/{number}.grc" for number in range(12)]
    after = with_recent_flowgraphs(STATE, files)
    assert recent_flowgraphs(after) == files[:10]
    assert "main_window_width = 900" in after
    assert recent_flowgraphs(with_recent_flowgraphs(after, [])) == []


def test_a_state_without_anything_is_no_file():
    assert with_recent_flowgraphs(with_recent_flowgraphs("", ["/x/1.grc"]), []) == ""
    assert recent_flowgraphs("") == []
