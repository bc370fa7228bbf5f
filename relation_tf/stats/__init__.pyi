from ._steel_dwass import SteelDwassResult as SteelDwassResult
from ._steel_dwass import steel_dwass as steel_dwass
from .design import attainable_pvalue as attainable_pvalue
from .design import seeds_needed as seeds_needed
from .design import what_can_be_shown as what_can_be_shown
from .effect_size import cliffs_delta as cliffs_delta
from .summary import mean_interval as mean_interval
from .summary import separation_from_summary as separation_from_summary
