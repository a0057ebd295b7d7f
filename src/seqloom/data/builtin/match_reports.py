"""Reports of football matches, and summaries of one sentence."""

from collections.abc import Iterator

from seqloom.data.builtin.random_text import Random, choose, distinct, generator

TEAMS = ["Rovers", "United", "Rangers", "Wanderers", "Athletic", "City", "Albion", "Harriers"]
PLAYERS = ["Novak", "Silva", "Berger", "Okafor", "Lindqvist", "Moreau", "Tanaka", "Ferri", "Kowalski", "Duarte"]
WEATHER = ("It rained all evening .", "The sun was shining .", "A strong wind blew .", "It was bitterly cold .")
CROWD = ("The stands were full .", "Only few people came .", "The fans sang for hours .", "Tickets had sold out .")
CHANCES = ("{p} hit the post .", "{p} saw a yellow card .", "{p} missed a penalty .", "{p} had to leave injured .")
GOALS = ("In minute {m} {p} scored for {t} .", "{p} made a goal for {t} in minute {m} .")


def rows(size: int, split: str, *, seed: int) -> Iterator[str]:
    """``report, summary``; pairs of teams are held out."""
    random = generator(split, seed)
    return distinct(size, split, iter(lambda: _row(random), None))


def _row(random: Random) -> tuple[str, str]:
    home, guest = (str(team) for team in random.choice(TEAMS, size=2, replace=False))
    sentences = [f"{home} played at home against {guest} .", choose(random, (*WEATHER, *CROWD))]
    score = {home: 0, guest: 0}
    minute = 0
    scorer = ""
    for _ in range(int(random.integers(1, 5))):
        minute += int(random.integers(5, 20))
        player, team = choose(random, PLAYERS), choose(random, (home, guest))
        if random.random() < 0.7:
            score[team] += 1
            scorer = player
            sentences.append(choose(random, GOALS).format(m=minute, p=player, t=team))
        else:
            sentences.append(choose(random, CHANCES).format(p=player))
    sentences.append(choose(random, (*WEATHER, *CROWD)))
    one, other = score[home], score[guest]
    if one == other:
        summary = f"{home} and {guest} drew {one} to {other}"
    else:
        winner, loser = (home, guest) if one > other else (guest, home)
        summary = f"{winner} beat {loser} {max(one, other)} to {min(one, other)}"
    summary += f" , last goal by {scorer} ." if scorer else " ."
    return f"{home} {guest}", f"{' '.join(sentences)}\t{summary}"
